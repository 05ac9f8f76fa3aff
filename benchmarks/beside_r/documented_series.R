# Reproduce documented differences of case series on people made by hand: Rscript documented_series.R FOLDER
# Reads omop.sqlite of FOLDER; writes series.csv there: a statement and R's number, as text.
suppressMessages(library(SelfControlledCaseSeries))
invisible(ParallelLogger::clearLoggers())
folder <- commandArgs(TRUE)[1]
options(andromedaTempFolder = file.path(folder, "andromeda"))
details <- DatabaseConnector::createConnectionDetails(dbms = "sqlite", server = file.path(folder, "omop.sqlite"))
said <- NULL
say <- function(what, ...) said <<- rbind(said, data.frame(what = what, R = paste(sapply(list(...), function(x)
  if (is.numeric(x) && !is.na(x) && x != round(x)) sprintf("%.4f", x) else as.character(x)), collapse = " ")))
quiet <- function(x) suppressWarnings(suppressMessages(x))
fetch <- function(outcome, exposures, ..., outcomes = "condition_occurrence", from = "drug_era") quiet(getDbSccsData(details, "main", outcomeIds = outcome,
  exposureDatabaseSchema = "main", exposureTable = from, outcomeDatabaseSchema = "main", outcomeTable = outcomes, nestingCohortDatabaseSchema = "main", nestingCohortTable = "cohort",
  getDbSccsDataArgs = createGetDbSccsDataArgs(exposureIds = exposures, ...)))
cases_of <- function(data, outcome, ...) quiet(createStudyPopulation(data, outcome, createCreateStudyPopulationArgs(...)))
window <- function(eras, start = 0, end = 0, anchor = "era end", ...) createEraCovariateSettings(includeEraIds = eras, label = "window", start = start, end = end, endAnchor = anchor, ...)
intervals_of <- function(data, cases, windows, probe = 0, ...) quiet(createSccsIntervalData(cases, data, createCreateSccsIntervalDataArgs(windows, endOfObservationEraLength = probe, minCasesForTimeCovariates = 1e6, ...)))
days_of <- function(intervals, id = 1000) {
  exposed <- dplyr::collect(intervals$covariates)
  sum(merge(exposed[exposed$covariateId == id, ], dplyr::collect(intervals$outcomes)[, c("rowId", "time")])$time)
}
fit <- function(intervals, prior = createPrior("none")) quiet(fitSccsModel(intervals, createFitSccsModelArgs(prior = prior, control = createControl(noiseLevel = "silent", tolerance = 1e-10, maxIterations = 5000))))
line <- function(model, id = 1000) model$estimates[model$estimates$covariateId == id, ]

both <- fetch(213, 103)
say("first outcome only: outcomes in two observation periods", nrow(cases_of(both, 213, firstOutcomeOnly = TRUE)$outcomes))
of_age <- fetch(214, 103)
say("min_age 41: outcomes on the 41st birthday less a day and later", nrow(cases_of(of_age, 214, minAge = 41)$outcomes))
ended <- cases_of(fetch(216, 106), 216, restrictTimeToEraId = 106)$cases
say("restricted to an exposure: days, and whether the end is independent", ended$endDay - ended$startDay + 1, ended$noninformativeEndCensor)
say("eras of an ancestor: exposed cases", sum(dplyr::collect(fetch(211, 600000)$eras)$eraType == "rx"))
every <- fetch(201, c(), outcomes = "cohort", from = "cohort")
say("all eras of a cohort table: exposed days", days_of(intervals_of(every, cases_of(every, 201), list(window(c())))))
later <- fetch(215, 105, studyStartDates = "20120101", studyEndDates = "20131231")
population <- cases_of(later, 215)
before <- list(window(105, -30, -1, "era start"))
population$outcomes <- population$outcomes[population$outcomes$outcomeDay == 1000, ] # as case_series.R does
say("exposure after the study period: days of the window before exposure", days_of(intervals_of(later, population, before)))
older <- fetch(215, 105)
say("exposure after max_age: days of the window before exposure", days_of(intervals_of(older, cases_of(older, 215, maxAge = 41), before)))

# Twelve people with eras of 103, eras of 104 without events, and events 212 in eras of 103 alone.
data <- fetch(211, c(103, 104))
cases <- cases_of(data, 211)
intervals <- intervals_of(data, cases, list(window(103, profileLikelihood = TRUE)))
model <- fit(intervals)
found <- line(model)
say("rate ratio", found$logRr)
say("standard error from the width of the interval", (found$logUb95 - found$logLb95) / (2 * qnorm(0.975)))
say("p-value", sprintf("%.2e", EmpiricalCalibration::computeTraditionalP(found$logRr, found$seLogRr)))
profile <- model$logLikelihoodProfiles[[1]]
say("profile: the ten points", all(sapply(seq(log(0.1), log(10), length.out = 10), function(x) min(abs(profile$point - x)) < 1e-6)))
say("profile: the value at a ratio of 0.1", profile$value[which.min(profile$point)])
say("profile: fall from a ratio of 10 to 0.1", profile$value[which.max(profile$point)] - profile$value[which.min(profile$point)])
without <- line(fit(intervals_of(data, cases, list(window(103), window(104)))), 1001)
say("no events in a window: below 0.001, lower limit, upper limit", exp(without$logRr) < 0.001, exp(without$logLb95), exp(without$logUb95))
all_in <- fetch(212, 103)
ends <- line(fit(intervals_of(all_in, cases_of(all_in, 212), list(window(103)))))
say("all events in a window: log rate ratio and limits", ends$logRr, ends$logLb95, ends$logUb95)
shrunk <- fit(intervals_of(data, cases, list(window(103), window(104, allowRegularization = TRUE))), createPrior("normal", variance = 0.5))
say("a prior on another window: log rate ratio", line(shrunk)$logRr)
say("a prior on another window: likelihood ratio", line(shrunk)$llr)
mdrr <- function(intervals, id = 1000) computeMdrr(intervals, exposureCovariateId = id)
say("detectable ratio", mdrr(intervals)$mdrr)
naive <- cases_of(data, 211, naivePeriod = 365)
say("detectable ratio with a naive period: days", mdrr(intervals_of(data, naive, list(window(103))))$timeTotal)
few <- fetch(217, 103)
say("detectable ratio with one event and little unexposed time", mdrr(intervals_of(few, cases_of(few, 217), list(window(103, -700, 2500))))$mdrr)
scri <- quiet(createScriIntervalData(cases, data, createCreateScriIntervalDataArgs(list(window(103, 0, 30, "era start")), createControlIntervalSettings(includeEraIds = 103, start = -90, end = -31, endAnchor = "era start"))))
say("detectable ratio of a risk interval design: days and events", mdrr(scri)$timeTotal, mdrr(scri)$events)
spline <- SelfControlledCaseSeries:::cyclicSplineDesign(1:12, knots = 0.5 + seq(0, 12, length.out = 5))
say("columns of the season: their sum, and their number", if (all(abs(rowSums(spline) - 1) < 1e-12)) 1 else "not 1", ncol(spline))
months <- quiet(SelfControlledCaseSeries:::computeOutcomeRatePerMonth(cases))
say("monthly rates: outcomes, and those expected", sum(months$observedCount), sum(months$adjustedExpectedCount))
# The model of the ends that has age, whatever these twelve people fit best.
assignInNamespace("fitModelsAndPickBest", function(data) list(model = 1, p = c(0, 0, 0, 0), aic = 0), "SelfControlledCaseSeries")
warned <- NULL
dependent <- withCallingHandlers(try(suppressMessages(createSccsIntervalData(cases, data, createCreateSccsIntervalDataArgs(list(window(103)), ageCovariateSettings = createAgeCovariateSettings(5),
  eventDependentObservation = TRUE, endOfObservationEraLength = 0))), silent = TRUE), warning = function(w) { warned <<- c(warned, conditionMessage(w)); invokeRestart("muffleWarning") })
say("age with event-dependent observation", grep("removing age", warned, value = TRUE)[1])
none <- fetch(218, 103)
empty <- intervals_of(none, cases_of(none, 218), list(window(103)))
say("a case whose exposure is outside: status", fit(empty)$status)
write.csv(said, file.path(folder, "series.csv"), row.names = FALSE)
