# Time the steps of CohortMethod or SelfControlledCaseSeries: Rscript study_times.R FOLDER PACKAGE TARGET COMPARATOR OUTCOME
# Reads omop.sqlite of FOLDER; prints a line of JSON for each step, with its processor seconds.
arguments <- commandArgs(TRUE)
folder <- normalizePath(arguments[1]); ids <- as.integer(arguments[3:5])
suppressMessages({library(arguments[2], character.only = TRUE); library(jsonlite)})
invisible(ParallelLogger::clearLoggers())
options(andromedaTempFolder = file.path(folder, "andromeda"))
details <- DatabaseConnector::createConnectionDetails(dbms = "sqlite", server = file.path(folder, "omop.sqlite"))
timed <- function(step, expression, estimate = function(x) NULL) {
  started <- proc.time()
  value <- suppressMessages(force(expression))
  seconds <- sum((proc.time() - started)[c("user.self", "sys.self")])
  cat(toJSON(list(step = step, seconds = seconds, estimate = estimate(value)), auto_unbox = TRUE, digits = NA, null = "null"), "\n")
  value
}
control <- Cyclops::createControl(noiseLevel = "silent", cvType = "auto", seed = 1, resetCoefficients = TRUE, tolerance = 2e-7,
  cvRepetitions = 1, startingVariance = 0.01)

cohort_study <- function() {
  covariates <- FeatureExtraction::createDefaultCovariateSettings(excludedCovariateConceptIds = ids[1:2])
  data <- timed("extraction", getDbCohortMethodData(details, "main", targetId = ids[1], comparatorId = ids[2], outcomeIds = ids[3],
    exposureDatabaseSchema = "main", exposureTable = "cohort", outcomeDatabaseSchema = "main", outcomeTable = "cohort",
    getDbCohortMethodDataArgs = createGetDbCohortMethodDataArgs(covariateSettings = covariates)))
  at_risk <- createCreateStudyPopulationArgs(riskWindowEnd = 365, endAnchor = "cohort start")
  scores <- timed("score, ten folds", createPs(data, createStudyPopulation(data, createStudyPopulationArgs = at_risk),
    createPsArgs = createCreatePsArgs(errorOnHighCorrelation = FALSE, control = control)),
    function(x) attr(x, "metaData")$psModelPriorVariance)
  timed("matching and balance", {
    matched <- matchOnPs(scores, createMatchOnPsArgs())
    computeCovariateBalance(matched, data, computeCovariateBalanceArgs = createComputeCovariateBalanceArgs())
  }, function(x) max(abs(x$afterMatchingStdDiff), na.rm = TRUE))
  timed("outcome", {
    people <- createStudyPopulation(data, population = scores, outcomeId = ids[3], createStudyPopulationArgs = at_risk)
    fitOutcomeModel(matchOnPs(people, createMatchOnPsArgs()), fitOutcomeModelArgs = createFitOutcomeModelArgs())
  }, function(x) unname(coef(x)))
}

case_series <- function() {
  data <- timed("extraction", getDbSccsData(details, "main", outcomeIds = ids[3], exposureDatabaseSchema = "main",
    exposureTable = "cohort", outcomeDatabaseSchema = "main", outcomeTable = "cohort",
    getDbSccsDataArgs = createGetDbSccsDataArgs(exposureIds = ids[1])))
  people <- createStudyPopulation(data, ids[3], createStudyPopulationArgs = createCreateStudyPopulationArgs())
  windows <- list(
    createEraCovariateSettings(label = "Main", includeEraIds = ids[1], start = 0, end = 0, endAnchor = "era end", profileLikelihood = TRUE),
    createEraCovariateSettings(label = "Pre", includeEraIds = ids[1], start = -30, end = -1, endAnchor = "era start", preExposure = TRUE))
  for (splines in c(FALSE, TRUE)) {
    given <- if (!splines) list() else list(ageCovariateSettings = createAgeCovariateSettings(), seasonalityCovariateSettings = createSeasonalityCovariateSettings(),
      calendarTimeCovariateSettings = createCalendarTimeCovariateSettings(), minCasesForTimeCovariates = 1e6)
    name <- if (splines) "windows and three splines" else "windows"
    intervals <- timed(paste("intervals,", name), createSccsIntervalData(people, data, do.call(createCreateSccsIntervalDataArgs, c(list(eraCovariateSettings = windows), given))))
    timed(paste("fit,", name), fitSccsModel(intervals, createFitSccsModelArgs(prior = Cyclops::createPrior("none"))),
      function(x) x$estimates$logRr[x$estimates$covariateId == 1000])
  }
}

if (arguments[2] == "CohortMethod") invisible(cohort_study()) else invisible(case_series())
