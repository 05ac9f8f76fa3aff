# R's glmnet, survival and Cyclops at the same objective: Rscript peers.R NAME FOLDER N P OPTIONS
# Writes NAME.beta.bin (intercept first, doubles); the last line printed is JSON.
arguments <- commandArgs(TRUE)
name <- arguments[1]
package <- c(glmnet = "glmnet", survival = "survival", cyclops = "Cyclops")[[name]]
if (!suppressPackageStartupMessages(requireNamespace(package, quietly = TRUE))) quit(status = 1)
version <- as.character(packageVersion(package))
if (arguments[2] == "--probe") { cat(version, "\n"); quit() }
folder <- arguments[2]; n <- as.integer(arguments[3]); p <- as.integer(arguments[4])
o <- strsplit(arguments[5], ",")[[1]]
family <- o[1]; lambda <- as.numeric(o[2]); folds <- as.integer(o[3]); repeats <- as.integer(o[4])
penalties <- as.integer(o[5]); ratio <- as.numeric(o[6]); tolerance <- as.numeric(o[7])
suppressPackageStartupMessages(library(Matrix))
file <- function(f) file.path(folder, f)
indptr <- readBin(file("indptr.bin"), "double", p + 1)
indices <- readBin(file("indices.bin"), "integer", tail(indptr, 1))
y <- readBin(file("y.bin"), "double", n)
time <- readBin(file("time.bin"), "double", n)
X <- sparseMatrix(i = indices, p = as.integer(indptr), x = rep(1, length(indices)),
                  dims = c(n, p), index1 = FALSE)
outcome <- if (family == "cox") cbind(time = time, status = y) else y
kind <- if (family == "cox") "cox" else "binomial"
beta <- rep(NA, p + 1)
started <- proc.time()[["elapsed"]]
if (name == "glmnet" && folds > 0) {
  for (r in seq_len(repeats))
    fit <- glmnet::cv.glmnet(X, outcome, family = kind, nfolds = folds, standardize = FALSE,
                             nlambda = penalties, lambda.min.ratio = ratio, thresh = tolerance)
} else if (name == "glmnet") {
  fit <- glmnet::glmnet(X, outcome, family = kind, standardize = FALSE, thresh = tolerance,
                        lambda = exp(seq(log(50), 0, length.out = 20)) * lambda / n, maxit = 1e7)
  b <- as.numeric(fit$beta[, ncol(fit$beta)])
  beta <- c(if (family == "cox") 0 else tail(fit$a0, 1), b)
} else if (name == "survival") {
  # No lasso in coxph: the unpenalised fit, for its time only.
  fit <- survival::coxph(survival::Surv(time, y) ~ as.matrix(X), ties = "breslow")
} else {
  prior <- Cyclops::createPrior("laplace", variance = 2 / lambda^2, useCrossValidation = folds > 0)
  control <- Cyclops::createControl(cvType = "auto", fold = folds, cvRepetitions = repeats,
                                    tolerance = 1e-8, noiseLevel = "silent", seed = 1)
  covariates <- data.frame(rowId = indices + 1, covariateId = rep(seq_len(p), diff(indptr)), covariateValue = 1)
  outcomes <- data.frame(rowId = seq_len(n), y = y, time = time)
  data <- Cyclops::convertToCyclopsData(outcomes, covariates, modelType = if (family == "cox") "cox" else "lr",
                                        addIntercept = family != "cox")
  fit <- Cyclops::fitCyclopsModel(data, prior = prior, control = control)
  b <- coef(fit)
  if (folds == 0) {
    columns <- as.character(seq_len(p))
    beta <- c(if (family == "cox") 0 else b[[1]], ifelse(columns %in% names(b), b[columns], 0))
  }
}
seconds <- proc.time()[["elapsed"]] - started
if (!anyNA(beta)) writeBin(as.numeric(beta), file(paste0(name, ".beta.bin")))
status <- tryCatch(readLines("/proc/self/status"), error = function(e) character())
peak <- as.numeric(gsub("\\D", "", grep("VmHWM", status, value = TRUE)))
cat(sprintf('\n{"peer": "%s", "version": "%s", "seconds": %.4f, "peak": %.0f}\n', name, version,
            seconds, if (length(peak)) peak * 1024 else NaN))
