# Cross-validate problems with glmnet: Rscript cross_validation.R FOLDER
# Reads index.json and ID.csv of FOLDER; writes glmnet.json there: the mean deviance at each lambda.
suppressMessages({library(glmnet); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
glmnet.control(fdev = 0, devmax = 1)
answer <- function(d) {
  frame <- read.csv(file.path(folder, paste0(d$id, ".csv")))
  X <- as.matrix(frame[, grep("^x", names(frame))])
  y <- if (d$family == "cox") survival::Surv(frame$time, frame$y) else frame$y
  # Deviances of single folds are not returned; cvm is their mean, weighted by the folds.
  run <- function(grouped) cv.glmnet(X, y, weights = frame$w, offset = frame$offset, family = d$family, foldid = frame$fold + 1, lambda = unlist(d$lambda),
    standardize = FALSE, thresh = 1e-12, maxit = 1e6, type.measure = "deviance", grouped = grouped)
  found <- run(TRUE)
  out <- list(id = d$id, cvm = I(found$cvm))
  if (d$family == "cox") out$alone <- I(run(FALSE)$cvm)
  out
}
write_json(lapply(read_json(file.path(folder, "index.json")), answer), file.path(folder, "glmnet.json"), auto_unbox = TRUE, digits = NA)
