# Run drawn cohort studies with CohortMethod: Rscript cohort_method.R FOLDER...
# Reads settings.json and omop.sqlite of each folder; writes specifications.json, R's export to the folder r, and r.json with
# the elapsed seconds or the error.
suppressMessages({library(CohortMethod); library(jsonlite)})
invisible(ParallelLogger::clearLoggers())
flat <- function(x) if (is.list(x) && is.null(names(x))) unlist(x) else x
call_with <- function(f, given, ...) do.call(f, c(lapply(given, flat), list(...)))
control <- createControl(noiseLevel = "silent", tolerance = 1e-10, maxIterations = 10000, resetCoefficients = TRUE, seed = 1)

# Version 6.0.2 stops at Poisson models, whose detectable ratio it does not have (docs/differences_from_r.md); that of hazards
# is taken instead.
detectable <- CohortMethod:::computeMdrrFromAggregateStats
rates_too <- function(..., modelType = "cox") detectable(..., modelType = if (modelType == "poisson") "cox" else modelType)
assignInNamespace("computeMdrrFromAggregateStats", rates_too, "CohortMethod")

make_analysis <- function(a) {
  covariates <- FeatureExtraction::createCovariateSettings(
    useDemographicsGender = TRUE, useDemographicsAgeGroup = TRUE, useDemographicsIndexYear = TRUE,
    useConditionOccurrenceLongTerm = TRUE, useConditionGroupEraShortTerm = FALSE, useDrugEraLongTerm = TRUE,
    useProcedureOccurrenceShortTerm = TRUE, useMeasurementLongTerm = TRUE, useCharlsonIndex = TRUE,
    longTermStartDays = -365, shortTermStartDays = -30, endDays = 0)
  parts <- list(
    analysisId = a$id, description = a$description,
    getDbCohortMethodDataArgs = call_with(createGetDbCohortMethodDataArgs, a$data, covariateSettings = covariates),
    createStudyPopulationArgs = call_with(createCreateStudyPopulationArgs, a$population),
    fitOutcomeModelArgs = call_with(createFitOutcomeModelArgs, a$outcome[setdiff(names(a$outcome), "variance")],
      prior = createPrior("laplace", variance = if (is.null(a$outcome$variance)) 1 else a$outcome$variance), control = control))
  if (!is.null(a$propensity)) {
    parts$createPsArgs <- createCreatePsArgs(estimator = a$propensity$estimator, errorOnHighCorrelation = FALSE,
      prior = createPrior("laplace", exclude = c(0), variance = a$propensity$variance), control = control)
    parts$computeSharedCovariateBalanceArgs <- createComputeCovariateBalanceArgs()
    parts$computeCovariateBalanceArgs <- createComputeCovariateBalanceArgs()
  }
  if (!is.null(a$trim)) parts$trimByPsArgs <- call_with(createTrimByPsArgs, a$trim)
  if (!is.null(a$truncate)) parts$truncateIptwArgs <- call_with(createTruncateIptwArgs, a$truncate)
  if (!is.null(a$match)) parts$matchOnPsArgs <- call_with(createMatchOnPsArgs, a$match)
  if (!is.null(a$stratify)) parts$stratifyByPsArgs <- call_with(createStratifyByPsArgs, a$stratify)
  do.call(createCmAnalysis, parts)
}

run_study <- function(folder) {
  options(andromedaTempFolder = file.path(folder, "andromeda"))
  drawn <- read_json(file.path(folder, "settings.json"), simplifyVector = FALSE)
  outcomes <- lapply(drawn$outcomes, function(o) createOutcome(outcomeId = o))
  question <- createTargetComparatorOutcomes(targetId = drawn$target, comparatorId = drawn$comparator, outcomes = outcomes,
    nestingCohortId = drawn$nesting,
    excludedCovariateConceptIds = unlist(drawn$exclude))
  specifications <- createCmAnalysesSpecifications(cmAnalysisList = lapply(drawn$analyses, make_analysis),
    targetComparatorOutcomesList = list(question), refitPsForEveryStudyPopulation = drawn$refit)
  writeLines(as.character(specifications$toJson()), file.path(folder, "specifications.json"))
  details <- DatabaseConnector::createConnectionDetails(dbms = "sqlite", server = file.path(folder, "omop.sqlite"))
  started <- proc.time()[["elapsed"]]
  invisible(runCmAnalyses(details, "main", exposureDatabaseSchema = "main", exposureTable = "cohort",
    outcomeDatabaseSchema = "main", outcomeTable = "cohort", nestingCohortDatabaseSchema = "main",
    nestingCohortTable = "cohort", outputFolder = file.path(folder, "output"), cmAnalysesSpecifications = specifications))
  seconds <- proc.time()[["elapsed"]] - started
  exportToCsv(file.path(folder, "output"), exportFolder = file.path(folder, "r"), databaseId = "simulated", minCellCount = 0)
  seconds
}

for (folder in normalizePath(commandArgs(TRUE))) {
  said <- tryCatch(list(seconds = run_study(folder)), error = function(e) list(error = conditionMessage(e)))
  write_json(said, file.path(folder, "r.json"), auto_unbox = TRUE)
}
