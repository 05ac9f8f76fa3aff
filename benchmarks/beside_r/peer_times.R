# Time glmnet, survival or rms: Rscript peer_times.R FOLDER TASK LAMBDA
# Reads y.bin, time.bin (doubles), rows.bin, columns.bin (integers) of FOLDER; writes beta.csv and prints JSON with processor seconds.
suppressPackageStartupMessages({library(Matrix); library(jsonlite)})
arguments <- commandArgs(TRUE)
folder <- arguments[1]; task <- arguments[2]; lambda <- as.numeric(arguments[3])
read <- function(name, kind, size) {
  path <- file.path(folder, paste0(name, ".bin"))
  readBin(path, kind, file.info(path)$size / size, size = size)
}
y <- read("y", "double", 8); n <- length(y); time <- read("time", "double", 8)
X <- sparseMatrix(i = read("rows", "integer", 4), j = read("columns", "integer", 4), x = 1, dims = c(n, as.integer(arguments[4])), index1 = FALSE)
if (!startsWith(task, "glmnet")) {
  suppressPackageStartupMessages(library(rms))
  X <- as.matrix(X)
  colnames(X) <- paste0("x", seq_len(ncol(X)))
}
# The path to the penalty that glmnet needs; cv.glmnet chooses its own 100.
path <- exp(seq(log(20), 0, length.out = 20)) * lambda / n
times <- cbind(time = time, status = y)
lasso <- function(family, y, ...) glmnet::glmnet(X, y, family = family, standardize = FALSE, lambda = path, maxit = 1e7, ...)
fits <- list(
  glmnet_logistic = function() lasso("binomial", y),
  glmnet_cox = function() lasso("cox", times),
  glmnet_logistic_close = function() lasso("binomial", y, thresh = 1e-14),
  glmnet_cox_close = function() lasso("cox", times, thresh = 1e-14),
  glmnet_logistic_folds = function() glmnet::cv.glmnet(X, y, family = "binomial", standardize = FALSE, nfolds = 10),
  glmnet_cox_folds = function() glmnet::cv.glmnet(X, times, family = "cox", standardize = FALSE, nfolds = 10),
  survival_cox = function() survival::coxph.fit(X, survival::Surv(time, y), NULL, control = survival::coxph.control(), method = "efron", rownames = NULL),
  rms_logistic = function() rms::lrm.fit(X, y),
  rms_ordinal = function() rms::orm.fit(X, time, maxit = 50)
)
seconds <- numeric()
for (k in 1:3) {
  started <- proc.time()
  fit <- fits[[task]]()
  seconds[k] <- sum((proc.time() - started)[c("user.self", "sys.self")])
  if (seconds[k] > 10) break
}
beta <- NULL
if (startsWith(task, "glmnet") && !endsWith(task, "folds")) beta <- c(if (startsWith(task, "glmnet_cox")) 0 else tail(fit$a0, 1), as.numeric(fit$beta[, ncol(fit$beta)]))
if (task == "survival_cox") beta <- c(0, fit$coefficients)
if (startsWith(task, "rms")) beta <- c(if (task == "rms_logistic") fit$coefficients[[1]] else 0, tail(fit$coefficients, ncol(X)))
if (!is.null(beta)) write.csv(data.frame(beta = unname(beta)), file.path(folder, "beta.csv"), row.names = FALSE)
cat(toJSON(list(seconds = min(seconds)), auto_unbox = TRUE, digits = NA), "\n")
