# Time Cyclops on a sparse problem: Rscript times.R FOLDER TYPE VARIANCE FOLDS REPEATS
# Reads FOLDER: y.bin, stratum.bin, rows.bin, columns.bin (integers), time.bin (doubles), in Cyclops's order; writes beta.csv and
# prints JSON with the processor seconds of the fastest fit, without those of reading and of convertToCyclopsData.
suppressPackageStartupMessages({library(Cyclops); library(jsonlite)})
arguments <- commandArgs(TRUE)
folder <- arguments[1]; type <- arguments[2]; variance <- as.numeric(arguments[3]); folds <- as.integer(arguments[4])
read <- function(name, kind, size) {
  path <- file.path(folder, paste0(name, ".bin"))
  readBin(path, kind, file.info(path)$size / size, size = size)
}
integers <- function(name) read(name, "integer", 4)
y <- integers("y")
rows <- data.frame(rowId = seq_along(y) - 1, y = y, time = read("time", "double", 8))
entries <- data.frame(rowId = integers("rows"), covariateId = integers("columns") + 1, covariateValue = 1)
if (type == "cpr") {
  rows$stratumId <- integers("stratum")
  entries$stratumId <- rows$stratumId[entries$rowId + 1]
}
intercept <- type == "lr"
data <- convertToCyclopsData(rows, entries, modelType = type, addIntercept = intercept, quiet = TRUE)
rm(entries)
control <- createControl(noiseLevel = "silent", tolerance = 2e-7, maxIterations = 5000, cvType = "auto", fold = max(2, folds),
  cvRepetitions = 1, seed = 1, threads = 1, startingVariance = variance)
prior <- createPrior("laplace", variance = variance, exclude = if (intercept) 0 else c(), useCrossValidation = folds > 0)
seconds <- numeric()
for (k in seq_len(as.integer(arguments[5]))) {
  started <- proc.time()
  fit <- fitCyclopsModel(data, prior = prior, control = control, forceNewObject = TRUE)
  seconds[k] <- sum((proc.time() - started)[c("user.self", "sys.self")])
  if (seconds[k] > 10) break
}
b <- coef(fit, ignoreConvergence = TRUE)
ids <- sub("(Intercept)", "0", names(b), fixed = TRUE)
write.csv(data.frame(id = as.integer(ids), beta = unname(b)), file.path(folder, "beta.csv"), row.names = FALSE)
cat(toJSON(list(seconds = min(seconds), variance = fit$variance[1], flag = fit$return_flag), auto_unbox = TRUE, digits = NA), "\n")
