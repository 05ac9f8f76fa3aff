# Fit problems with Cyclops: Rscript cyclops_problems.R FOLDER
# Reads FOLDER/index.json and ID.csv, whose rows have Cyclops's order (stratum, falling time, outcome); writes one line of JSON for each problem to FOLDER/cyclops.jsonl.
suppressPackageStartupMessages({library(Cyclops); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
index <- read_json(file.path(folder, "index.json"))
control <- createControl(tolerance = 1e-11, maxIterations = 20000, convergenceType = "gradient", noiseLevel = "silent")

cyclops_data <- function(d, frame) {
  xs <- grep("^x[0-9]", names(frame))
  frame$rowId <- seq_len(nrow(frame))
  outcomes <- data.frame(rowId = frame$rowId, y = frame$y, time = frame$time)
  if (d$stratified) outcomes$stratumId <- frame$stratum
  if (d$weighted) outcomes$weights <- frame$w
  X <- as.matrix(frame[, xs, drop = FALSE])
  at <- which(X != 0, arr.ind = TRUE)
  covariates <- data.frame(rowId = frame$rowId[at[, 1]], covariateId = at[, 2], covariateValue = X[at])
  if (d$stratified) covariates$stratumId <- frame$stratum[at[, 1]]
  # Columns of zeros are not in the covariates; ids name the others.
  list(data = convertToCyclopsData(outcomes, covariates, modelType = d$type, addIntercept = d$intercept, quiet = TRUE),
       ids = sort(unique(at[, 2])), columns = length(xs), outcomes = outcomes)
}

prior_of <- function(d, made, variance = d$variance) {
  if (d$prior == "none") return(createPrior("none"))
  exclude <- c(if (d$intercept) 0, intersect(unlist(d$exclude) + 1, made$ids))
  if (length(exclude) == 0) createPrior(d$prior, variance = variance)
  else createPrior(d$prior, variance = variance, exclude = exclude)
}

all_coefficients <- function(d, made, fit) {
  b <- fit$estimation$estimate
  names(b) <- as.character(fit$estimation$column_label)
  out <- rep(0, made$columns)
  out[made$ids] <- b[as.character(made$ids)]
  c(if (d$intercept) b[["0"]], out)
}

answer <- function(d) {
  frame <- read.csv(file.path(folder, paste0(d$id, ".csv")))
  made <- cyclops_data(d, frame)
  fit <- fitCyclopsModel(made$data, prior = prior_of(d, made), control = control, forceNewObject = TRUE)
  out <- list(id = d$id, flag = fit$return_flag)
  if (fit$return_flag != "SUCCESS") return(out)
  out$coefficients <- I(all_coefficients(d, made, fit))
  out$log_likelihood <- fit$log_likelihood
  if (!is.null(d$draws)) {
    samples <- as.matrix(runBootstrap(fit, d$draws)$samples)
    colnames(samples) <- as.character(fit$estimation$column_label)
    out$samples <- samples[, as.character(c(if (d$intercept) 0, made$ids)), drop = FALSE]
    return(out)
  }
  if (length(d$points) > 0 && 1 %in% made$ids) {
    profile <- try(getCyclopsProfileLogLikelihood(fit, 1, x = unlist(d$points)), silent = TRUE)
    if (!inherits(profile, "try-error")) out$profile <- I(profile$value)
    limits <- try(confint(fit, 1), silent = TRUE)
    if (!inherits(limits, "try-error")) out$limits <- I(c(limits[2], limits[3]))
  }
  if (length(d$grid) > 0) {
    scores <- matrix(NA, length(d$grid), max(frame$fold) + 1)
    base <- if (d$weighted) frame$w else rep(1, nrow(frame))
    for (k in seq_along(d$grid)) for (f in 0:max(frame$fold)) {
      train <- ifelse(frame$fold == f, 0, base)
      test <- ifelse(frame$fold == f, base, 0)
      part <- try(fitCyclopsModel(made$data, prior = prior_of(d, made, d$grid[[k]]), control = control, weights = train, forceNewObject = TRUE), silent = TRUE)
      if (inherits(part, "try-error") || part$return_flag != "SUCCESS") next
      scores[k, f + 1] <- Cyclops:::.cyclopsGetNewPredictiveLogLikelihood(part$interface, test)
    }
    out$scores <- scores
  }
  out
}

out <- file(file.path(folder, "cyclops.jsonl"), "w")
for (d in index) {
  z <- try(answer(d), silent = TRUE)
  if (inherits(z, "try-error")) z <- list(id = d$id, flag = paste("error:", substr(gsub("\n", " ", z), 1, 200)))
  writeLines(toJSON(z, auto_unbox = TRUE, digits = NA, na = "null"), out)
  flush(out)
}
close(out)
