# Calibrate and combine drawn estimates with EmpiricalCalibration and EvidenceSynthesis: Rscript estimates.R INPUT OUTPUT
# Reads a list of inputs as JSON, and writes a list of numbers for each.
suppressMessages({library(EmpiricalCalibration); library(EvidenceSynthesis); library(jsonlite)})
quiet <- function(expr) suppressWarnings(suppressMessages(expr))

answer <- function(d) {
  negative <- quiet(fitNull(d$logRr[d$truth == 0], d$seLogRr[d$truth == 0]))
  model <- quiet(fitSystematicErrorModel(d$logRr, d$seLogRr, d$truth))
  interval <- quiet(calibrateConfidenceInterval(d$newLogRr, d$newSe, model))
  simple <- quiet(calibrateConfidenceInterval(d$newLogRr, d$newSe, convertNullToErrorModel(negative)))
  gradients <- lapply(d$profiles, function(p) data.frame(point = p$point, value = p$value, derivative = p$derivative))
  combined <- quiet(computeFixedEffectMetaAnalysis(gradients))
  list(null = as.list(unname(unclass(negative)[1:2])),
    ease = quiet(computeExpectedAbsoluteSystematicError(negative)),
    p = quiet(calibrateP(negative, d$newLogRr, d$newSe)),
    one_sided_p = quiet(calibrateP(negative, d$newLogRr, d$newSe, twoSided = FALSE, upper = TRUE)),
    model = as.list(unname(unclass(model)[1:4])),
    interval = as.list(unlist(interval[c("logRr", "logLb95Rr", "logUb95Rr", "seLogRr")])),
    simple = as.list(unlist(simple[c("logRr", "logLb95Rr", "logUb95Rr", "seLogRr")])),
    combined = as.list(unlist(combined[c("logRr", "seLogRr", "lb", "ub")])))
}

arguments <- commandArgs(TRUE)
inputs <- read_json(arguments[1], simplifyVector = TRUE, simplifyDataFrame = FALSE)
write_json(lapply(inputs, answer), arguments[2], auto_unbox = TRUE, digits = NA, na = "null")
