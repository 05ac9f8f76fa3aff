# Time Cyclops on a sparse problem: Rscript times.R FOLDER TYPE VARIANCE FOLDS
# Reads rows.csv (rowId, y, time, stratumId in Cyclops's order) and entries.csv of FOLDER; writes beta.csv and prints JSON.
suppressPackageStartupMessages({library(Cyclops); library(jsonlite)})
arguments <- commandArgs(TRUE)
folder <- arguments[1]; type <- arguments[2]; variance <- as.numeric(arguments[3]); folds <- as.integer(arguments[4])
rows <- read.csv(file.path(folder, "rows.csv"))
entries <- read.csv(file.path(folder, "entries.csv"))
entries$covariateValue <- 1
intercept <- type == "lr"
if (type == "cpr") entries$stratumId <- rows$stratumId[match(entries$rowId, rows$rowId)]
if (type != "cpr") rows$stratumId <- NULL
if (type == "cpr") entries <- entries[order(entries$stratumId, entries$covariateId, entries$rowId), ]
data <- convertToCyclopsData(rows, entries, modelType = type, addIntercept = intercept, quiet = TRUE)
control <- createControl(noiseLevel = "silent", tolerance = 2e-7, maxIterations = 5000, cvType = "auto", fold = max(2, folds),
  cvRepetitions = 1, seed = 1, threads = 1, startingVariance = variance)
prior <- createPrior("laplace", variance = variance, exclude = if (intercept) 0 else c(), useCrossValidation = folds > 0)
started <- proc.time()[["elapsed"]]
fit <- fitCyclopsModel(data, prior = prior, control = control, forceNewObject = TRUE)
seconds <- proc.time()[["elapsed"]] - started
b <- coef(fit, ignoreConvergence = TRUE)
ids <- sub("(Intercept)", "0", names(b), fixed = TRUE)
write.csv(data.frame(id = as.integer(ids), beta = unname(b)), file.path(folder, "beta.csv"), row.names = FALSE)
cat(toJSON(list(seconds = seconds, variance = fit$variance[1], flag = fit$return_flag), auto_unbox = TRUE), "\n")
