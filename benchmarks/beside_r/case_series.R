# Run drawn case series with SelfControlledCaseSeries: Rscript case_series.R FOLDER...
# Reads settings.json and omop.sqlite of each folder; writes specifications.json, R's export to the folder r, and r.json with
# the elapsed seconds or the error.
suppressMessages({library(SelfControlledCaseSeries); library(jsonlite)})
invisible(ParallelLogger::clearLoggers())
# Clusters of R processes, each of which loads its packages, take longer than small studies themselves.
cluster_of <- ParallelLogger::makeCluster
assignInNamespace("makeCluster", function(numberOfThreads, ...) cluster_of(1, ...), "ParallelLogger")
flat <- function(x) if (is.list(x) && is.null(names(x))) unlist(x) else x
call_with <- function(f, given, ...) do.call(f, c(lapply(given, flat), list(...)))
control <- createControl(noiseLevel = "silent", tolerance = 1e-9, maxIterations = 5000, resetCoefficients = TRUE, seed = 1)

# Version 6.1.4 keeps outcomes outside a study period or nesting cohort and then loses others (docs/differences_from_r.md);
# without this repair no number of such a study could be compared.
original <- SelfControlledCaseSeries::createStudyPopulation
repaired <- function(...) {
  population <- original(...)
  cases <- population$cases[, c("caseId", "startDay", "endDay")]
  days <- merge(population$outcomes, cases, by = "caseId")
  days <- days[days$outcomeDay >= days$startDay & days$outcomeDay <= days$endDay, c("caseId", "outcomeDay")]
  population$outcomes <- dplyr::as_tibble(days[order(days$caseId, days$outcomeDay), ])
  population
}
if (Sys.getenv("R_UNREPAIRED") == "") assignInNamespace("createStudyPopulation", repaired, "SelfControlledCaseSeries")

# Half of the time of a small study is this function, which is called three times with the same arguments.
known_rates <- new.env()
rates <- SelfControlledCaseSeries:::computeOutcomeRatePerMonth
rates_once <- function(studyPopulation, sccsModel = NULL) {
  key <- digest::digest(list(studyPopulation$cases, studyPopulation$outcomes, sccsModel$estimates))
  if (is.null(known_rates[[key]])) known_rates[[key]] <- rates(studyPopulation, sccsModel)
  known_rates[[key]]
}
assignInNamespace("computeOutcomeRatePerMonth", rates_once, "SelfControlledCaseSeries")

make_analysis <- function(a) {
  eras <- lapply(a$windows, function(w) call_with(createEraCovariateSettings, w))
  time <- list()
  if (!is.null(a$ageKnots)) time$ageCovariateSettings <- createAgeCovariateSettings(ageKnots = a$ageKnots)
  if (!is.null(a$seasonKnots)) time$seasonalityCovariateSettings <- createSeasonalityCovariateSettings(seasonKnots = a$seasonKnots)
  if (!is.null(a$calendarKnots)) time$calendarTimeCovariateSettings <- createCalendarTimeCovariateSettings(calendarTimeKnots = a$calendarKnots)
  if (is.null(a$control)) {
    intervals <- do.call(createCreateSccsIntervalDataArgs, c(list(eraCovariateSettings = eras, minCasesForTimeCovariates = 100000,
      endOfObservationEraLength = a$endOfObservationEraLength, eventDependentObservation = a$eventDependentObservation), time))
  } else {
    intervals <- createCreateScriIntervalDataArgs(eraCovariateSettings = eras,
      controlIntervalSettings = call_with(createControlIntervalSettings, a$control))
  }
  prior <- if (is.null(a$variance)) createPrior("none") else createPrior(a$prior, variance = a$variance)
  createSccsAnalysis(analysisId = a$id, description = a$description,
    getDbSccsDataArgs = call_with(createGetDbSccsDataArgs, a$data),
    createStudyPopulationArgs = call_with(createCreateStudyPopulationArgs, a$population),
    createIntervalDataArgs = intervals, fitSccsModelArgs = createFitSccsModelArgs(prior = prior, control = control))
}

run_study <- function(folder) {
  options(andromedaTempFolder = file.path(folder, "andromeda"))
  drawn <- read_json(file.path(folder, "settings.json"), simplifyVector = FALSE)
  questions <- lapply(drawn$questions, function(q) createExposuresOutcome(outcomeId = q$outcome,
    exposures = list(createExposure(exposureId = q$exposure)), nestingCohortId = q$nesting))
  specifications <- createSccsAnalysesSpecifications(sccsAnalysisList = lapply(drawn$analyses, make_analysis),
    exposuresOutcomeList = questions, combineDataFetchAcrossOutcomes = FALSE)
  writeLines(as.character(specifications$toJson()), file.path(folder, "specifications.json"))
  details <- DatabaseConnector::createConnectionDetails(dbms = "sqlite", server = file.path(folder, "omop.sqlite"))
  started <- proc.time()[["elapsed"]]
  invisible(runSccsAnalyses(details, "main", exposureDatabaseSchema = "main", exposureTable = "cohort",
    outcomeDatabaseSchema = "main", outcomeTable = "cohort", nestingCohortDatabaseSchema = "main", nestingCohortTable = "cohort",
    outputFolder = file.path(folder, "output"), sccsAnalysesSpecifications = specifications))
  seconds <- proc.time()[["elapsed"]] - started
  exportToCsv(file.path(folder, "output"), exportFolder = file.path(folder, "r"), databaseId = "simulated", minCellCount = 0)
  seconds
}

for (folder in normalizePath(commandArgs(TRUE))) {
  said <- tryCatch(list(seconds = run_study(folder)), error = function(e) list(error = conditionMessage(e)))
  write_json(said, file.path(folder, "r.json"), auto_unbox = TRUE)
}
