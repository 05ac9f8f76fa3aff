# Calibrate and combine drawn estimates with EmpiricalCalibration and EvidenceSynthesis: Rscript estimates.R INPUT OUTPUT
# Reads a list of inputs as JSON, and writes a list of numbers for each.
suppressMessages({library(EmpiricalCalibration); library(EvidenceSynthesis); library(jsonlite)})
quiet <- function(expr) suppressWarnings(suppressMessages(expr))

# A Bayesian synthesis: R's own numbers, and those of its chain with steps that adapt less and less, with their errors from 20
# batches. R's chain adapts them by 1 / log(n) until its end. The effect in a further database is drawn from each mean and tau.
has_beast <- nzchar(system.file("java", "beast.jar", package = "BeastJar"))
settled_chain <- function(data) {
  made <- function(class, ...) rJava::.jnew(paste0("org.ohdsi.", class), ...)
  as <- function(x, class) rJava::.jcast(x, class)
  prior <- as(made("metaAnalysis.HalfNormalOnStdDevPrior", 0, 0.5), "org.ohdsi.metaAnalysis.ScalePrior")
  model <- as(quiet(constructDataModel(data)), "org.ohdsi.metaAnalysis.DataModel")
  analysis <- made("metaAnalysis.MetaAnalysis", model, prior, 2)
  kind <- "dr.inference.operators.OperatorSchedule$OptimizationTransform"
  linear <- as(rJava::.jfield(kind, name = "LINEAR"), kind)
  rJava::.jcall(analysis$getSchedule(), "V", "setOptimizationTransform", linear)
  runner <- made("mcmc.Runner", as(analysis, "org.ohdsi.mcmc.Analysis"), 1100000L, 100000L, 100L, 1, FALSE)
  runner$run()
  sapply(3:4, function(i) runner$getTrace(i))
}
bayesian <- function(d) {
  data <- switch(d$approximation,
    "grid with gradients" = lapply(d$bayesian, as.data.frame),
    "adaptive grid" = lapply(d$bayesian, function(p) data.frame(point = p$point, value = p$value)),
    "grid" = do.call(rbind, lapply(d$bayesian, function(p) setNames(as.data.frame(t(p$value)), p$point))),
    do.call(rbind, lapply(d$bayesian, as.data.frame)))
  found <- quiet(computeBayesianMetaAnalysis(data, showProgressBar = FALSE))
  traces <- settled_chain(data)
  set.seed(1)
  traces <- cbind(traces, rnorm(nrow(traces), traces[, 1], traces[, 2]))
  numbers <- function(x) c(mean(x[, 1]), sd(x[, 1]), quantile(x[, 1], c(0.025, 0.975)),
    quantile(x[, 2], c(0.5, 0.025, 0.975)), quantile(x[, 3], c(0.025, 0.975)))
  batches <- sapply(split(seq_len(nrow(traces)), rep(1:20, each = nrow(traces) / 20)), function(i) numbers(traces[i, ]))
  list(numbers = unname(numbers(traces)), errors = unname(apply(batches, 1, sd) / sqrt(20)),
    reported = as.list(found[1, 1:7]))
}

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
    combined = as.list(unlist(combined[c("logRr", "seLogRr", "lb", "ub")])),
    bayesian = if (has_beast) bayesian(d))
}

arguments <- commandArgs(TRUE)
inputs <- read_json(arguments[1], simplifyVector = TRUE, simplifyDataFrame = FALSE)
write_json(lapply(inputs, answer), arguments[2], auto_unbox = TRUE, digits = NA, na = "null")
