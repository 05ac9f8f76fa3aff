# Cohorts, rates and characteristics of drawn databases by R's packages: Rscript descriptive.R FOLDER...
# Reads settings.json and omop.sqlite of each folder; writes CSV files to the folder r, and r.json with seconds or the error.
# Circe's own Java library, which CohortIncidence ships, writes the SQL of the cohorts.
suppressMessages({library(CohortIncidence); library(Characterization); library(FeatureExtraction); library(jsonlite); library(rJava)})
.jaddClassPath(list.files(system.file("java", package = "CohortIncidence"), full.names = TRUE))
invisible(ParallelLogger::clearLoggers())
ours <- function(connection, sql) {
  found <- DatabaseConnector::querySql(connection, sql)
  names(found) <- tolower(names(found))
  found
}

generate <- function(connection, definitions) {
  DatabaseConnector::executeSql(connection, "CREATE TABLE cohort_r (cohort_definition_id INT, subject_id BIGINT, cohort_start_date DATE, cohort_end_date DATE);", progressBar = FALSE)
  builder <- .jnew("org/ohdsi/circe/cohortdefinition/CohortExpressionQueryBuilder")
  for (id in names(definitions)) {
    expression <- J("org.ohdsi.circe.cohortdefinition.CohortExpression")$fromJson(definitions[[id]])
    options <- .jnew("org/ohdsi/circe/cohortdefinition/CohortExpressionQueryBuilder$BuildExpressionQueryOptions")
    options$generateStats <- FALSE
    sql <- builder$buildExpressionQuery(expression, options)
    sql <- SqlRender::render(sql, warnOnMissingParameters = FALSE, cdm_database_schema = "main", vocabulary_database_schema = "main", results_database_schema = "main",
      target_database_schema = "main", target_cohort_table = "cohort_r", target_cohort_id = id)
    DatabaseConnector::executeSql(connection, SqlRender::translate(sql, "sqlite"), progressBar = FALSE)
  }
  ours(connection, "SELECT cohort_definition_id, subject_id, CAST(cohort_start_date AS INT) AS first, CAST(cohort_end_date AS INT) AS last FROM cohort_r;")
}

# Covariates of targets, of cases at their target and around their outcome.
aggregates <- function(details, drawn, out, folder) {
  of <- drawn$aggregate
  settings <- createCharacterizationSettings(aggregateCovariateSettings = createAggregateCovariateSettings(
    targetIds = unlist(drawn$targets), outcomeIds = unlist(drawn$outcomes), minPriorObservation = of$prior, outcomeWashoutDays = of$washout,
    riskWindowStart = of$start, startAnchor = "cohort start", riskWindowEnd = of$end, endAnchor = of$anchor,
    covariateSettings = createCovariateSettings(useDemographicsGender = TRUE, useDemographicsAge = TRUE, useDemographicsAgeGroup = TRUE,
      useDemographicsIndexYear = TRUE, useDemographicsTimeInCohort = TRUE, useDemographicsPriorObservationTime = TRUE,
      useDemographicsPostObservationTime = TRUE, useConditionOccurrenceLongTerm = TRUE, useDrugEraShortTerm = TRUE, useDrugEraOverlapping = TRUE,
      useProcedureOccurrenceLongTerm = TRUE, useMeasurementLongTerm = TRUE, useCharlsonIndex = TRUE, endDays = 0, longTermStartDays = -365, shortTermStartDays = -30),
    caseCovariateSettings = createDuringCovariateSettings(useConditionOccurrenceDuring = TRUE, useDrugEraDuring = TRUE, useProcedureOccurrenceDuring = TRUE, useMeasurementDuring = TRUE),
    casePreTargetDuration = of$before, casePostOutcomeDuration = of$after))
  saveCharacterizationSettings(settings, file.path(folder, "characterization.json"))
  runCharacterizationAnalyses(connectionDetails = details, targetDatabaseSchema = "main", targetTable = "cohort", outcomeDatabaseSchema = "main",
    outcomeTable = "cohort", cdmDatabaseSchema = "main", characterizationSettings = settings, outputDirectory = file.path(folder, "characterization"),
    databaseId = "simulated", minCharacterizationMean = 0, incremental = FALSE)
  for (name in c("c_covariates", "c_covariates_continuous", "c_cohort_counts"))
    file.copy(file.path(folder, "characterization", paste0(name, ".csv")), out)
}

incidence <- function(connection, design) { # as executeAnalysis, which refuses JSON with its own cohortDefs
  options <- buildOptions(cohortTable = "main.cohort", cdmDatabaseSchema = "main", sourceName = "simulated", refId = 1)
  options$useTempTables <- TRUE
  for (sql in list(getResultsDdl(useTempTables = TRUE), buildQuery(incidenceDesign = design, buildOptions = options)))
    DatabaseConnector::executeSql(connection, SqlRender::translate(sql, "sqlite"), progressBar = FALSE)
  ours(connection, SqlRender::translate("SELECT * FROM #incidence_summary;", "sqlite"))
}

run_study <- function(folder) {
  options(andromedaTempFolder = file.path(folder, "andromeda"))
  drawn <- read_json(file.path(folder, "settings.json"), simplifyVector = FALSE)
  details <- DatabaseConnector::createConnectionDetails(dbms = "sqlite", server = file.path(folder, "omop.sqlite"))
  connection <- DatabaseConnector::connect(details)
  on.exit(DatabaseConnector::disconnect(connection))
  out <- file.path(folder, "r")
  dir.create(out, showWarnings = FALSE)
  save <- function(table, name) { names(table) <- tolower(names(table)); write.csv(table, file.path(out, paste0(name, ".csv")), row.names = FALSE, na = "") }
  started <- proc.time()[["elapsed"]]
  save(generate(connection, drawn$definitions), "cohort_entry")
  save(incidence(connection, drawn$incidence), "ci_incidence_summary")
  targets <- unlist(drawn$targets)
  outcomes <- unlist(drawn$outcomes)
  computeTimeToEventAnalyses(details, "main", "cohort", cdmDatabaseSchema = "main", outputFolder = out,
    settings = createTimeToEventSettings(targetIds = targets, outcomeIds = outcomes), databaseId = "simulated")
  computeDechallengeRechallengeAnalyses(details, "main", "cohort", outputFolder = out, databaseId = "simulated",
    settings = createDechallengeRechallengeSettings(targetIds = targets, outcomeIds = outcomes,
      dechallengeStopInterval = drawn$stop, dechallengeEvaluationWindow = drawn$evaluation))
  for (name in c("time_to_event", "dechallenge_rechallenge"))
    file.rename(file.path(out, paste0(name, ".csv")), file.path(out, paste0("c_", name, ".csv")))
  aggregates(details, drawn, out, folder)
  DatabaseConnector::executeSql(connection, "CREATE TABLE cohort_first AS SELECT cohort_definition_id, subject_id, MIN(cohort_start_date) AS cohort_start_date, MIN(cohort_end_date) AS cohort_end_date FROM cohort GROUP BY 1, 2;", progressBar = FALSE)
  data <- getDbCovariateData(connection = connection, cdmDatabaseSchema = "main", cohortTable = "cohort_first", cohortIds = targets[1],
    covariateSettings = createDefaultCovariateSettings(), aggregated = FALSE)
  values <- dplyr::collect(data$covariates)
  save(aggregate(list(total = values$covariateValue), list(covariate_id = values$covariateId), sum), "covariate_sum")
  proc.time()[["elapsed"]] - started
}

for (folder in normalizePath(commandArgs(TRUE))) {
  said <- tryCatch(list(seconds = run_study(folder)), error = function(e) list(error = conditionMessage(e)))
  write_json(said, file.path(folder, "r.json"), auto_unbox = TRUE)
}
