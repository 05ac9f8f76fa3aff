# Reproduce documented differences on a few people made by hand: Rscript documented.R FOLDER
# Reads omop.sqlite of FOLDER, whose cohorts are 101, 102 and 201; strata.csv has other people; writes people.csv, values.csv, windows.csv and strata_results.csv there.
suppressMessages({library(CohortMethod); library(FeatureExtraction)})
invisible(ParallelLogger::clearLoggers())
folder <- commandArgs(TRUE)[1]
options(andromedaTempFolder = file.path(folder, "andromeda"))
details <- DatabaseConnector::createConnectionDetails(dbms = "sqlite", server = file.path(folder, "omop.sqlite"))
people <- NULL
for (both in c("keep first, truncate to second", "keep first")) for (first in c(TRUE, FALSE)) {
  data <- getDbCohortMethodData(details, "main", targetId = 101, comparatorId = 102, outcomeIds = 201, exposureDatabaseSchema = "main",
    exposureTable = "cohort", outcomeDatabaseSchema = "main", outcomeTable = "cohort",
    getDbCohortMethodDataArgs = createGetDbCohortMethodDataArgs(removeDuplicateSubjects = both, washoutPeriod = 0, firstExposureOnly = first, restrictToCommonPeriod = FALSE,
      covariateSettings = createCovariateSettings(useDemographicsGender = TRUE)))
  persons <- dplyr::collect(data$cohorts)
  risks <- list(`300 days` = createCreateStudyPopulationArgs(removeSubjectsWithPriorOutcome = FALSE, riskWindowEnd = 365, endAnchor = "cohort start", maxDaysAtRisk = 300),
    `cohort end` = createCreateStudyPopulationArgs(removeSubjectsWithPriorOutcome = FALSE))
  for (risk in names(risks)) {
    found <- createStudyPopulation(data, outcomeId = 201, createStudyPopulationArgs = risks[[risk]])
    people <- rbind(people, data.frame(both = both, first = first, risk = risk, person = persons$personId[match(found$rowId, persons$rowId)],
      treatment = found$treatment, days = found$timeAtRisk))
  }
}
write.csv(people, file.path(folder, "people.csv"), row.names = FALSE)
said <- NULL
say <- function(what, ...) said <<- rbind(said, data.frame(what = what, R = paste(..., sep = ", ")))
of_age <- getDbCohortMethodData(details, "main", targetId = 101, comparatorId = 102, outcomeIds = 201, exposureDatabaseSchema = "main",
  exposureTable = "cohort", outcomeDatabaseSchema = "main", outcomeTable = "cohort",
  getDbCohortMethodDataArgs = createGetDbCohortMethodDataArgs(washoutPeriod = 0, restrictToCommonPeriod = FALSE, minAge = 41,
    covariateSettings = createCovariateSettings(useDemographicsGender = TRUE)))
say("people aged 41 or more, of whom one enters on the birthday", sum(dplyr::collect(of_age$cohorts)$personId == 6))
for (days in 32:33) say(paste("people with", days, "days at risk or more, of whom one has 32"),
  sum(persons$personId[match(createStudyPopulation(data, outcomeId = 201, createStudyPopulationArgs = createCreateStudyPopulationArgs(removeSubjectsWithPriorOutcome = FALSE, minDaysAtRisk = days))$rowId, persons$rowId)] == 3))

values <- getDbCovariateData(connectionDetails = details, cdmDatabaseSchema = "main", cohortTable = "cohort", cohortIds = 101, rowIdField = "subject_id",
  covariateSettings = createCovariateSettings(useMeasurementValueLongTerm = TRUE, useMeasurementRangeGroupLongTerm = TRUE), aggregated = FALSE)
names <- dplyr::collect(values$covariateRef)
found <- dplyr::collect(values$covariates)
found$name <- names$covariateName[match(found$covariateId, names$covariateId)]
write.csv(found, file.path(folder, "values.csv"), row.names = FALSE)

series <- SelfControlledCaseSeries::getDbSccsData(details, "main", outcomeIds = 201, exposureDatabaseSchema = "main", exposureTable = "cohort",
  outcomeDatabaseSchema = "main", outcomeTable = "cohort", getDbSccsDataArgs = SelfControlledCaseSeries::createGetDbSccsDataArgs(exposureIds = 101))
cases <- SelfControlledCaseSeries::createStudyPopulation(series, 201, SelfControlledCaseSeries::createCreateStudyPopulationArgs())
window <- SelfControlledCaseSeries::createEraCovariateSettings(includeEraIds = 101, start = 0, end = 200, endAnchor = "era start", firstOccurrenceOnly = TRUE)
intervals <- SelfControlledCaseSeries::createSccsIntervalData(cases, series, SelfControlledCaseSeries::createCreateSccsIntervalDataArgs(window, endOfObservationEraLength = 0))
exposed <- merge(dplyr::collect(intervals$covariates), dplyr::collect(intervals$outcomes)[, c("rowId", "time")])
write.csv(data.frame(days = sum(exposed$time)), file.path(folder, "windows.csv"), row.names = FALSE)

# People in strata: the variance of a standardised difference, a curve with limits, and a density.
toy <- read.csv(file.path(folder, "strata.csv"))
known <- Andromeda::andromeda(cohorts = toy, covariates = data.frame(rowId = toy$rowId[toy$x == 1], covariateId = 1, covariateValue = 1),
  covariateRef = data.frame(covariateId = 1, covariateName = "x", analysisId = 1))
moments <- CohortMethod:::computeMeansPerGroup(known$cohorts, known, NULL)
curve <- dplyr::filter(CohortMethod:::prepareKaplanMeier(toy), treatment == 0, time == 30)
write.csv(data.frame(what = c("difference", "variance", "survival", "lower", "upper", "density"),
  value = c(moments$stdDiff, moments$sdmVariance, curve$survival, curve$lower, curve$upper, density(toy$score, from = 0, to = 1, n = 100)$y[1])),
  file.path(folder, "strata_results.csv"), row.names = FALSE)

# A study of 400 people, which cohort_method.R ran, with small cells hidden; and one without a propensity model.
study <- commandArgs(TRUE)[2]
exportToCsv(file.path(study, "output"), exportFolder = file.path(study, "hidden"), databaseId = "simulated", minCellCount = 5)
crude <- createCmAnalysis(getDbCohortMethodDataArgs = createGetDbCohortMethodDataArgs(washoutPeriod = 0, restrictToCommonPeriod = FALSE, covariateSettings = createCovariateSettings(useDemographicsGender = TRUE)),
  createStudyPopulationArgs = createCreateStudyPopulationArgs(), fitOutcomeModelArgs = createFitOutcomeModelArgs(modelType = "cox"))
alone <- try(runCmAnalyses(details, "main", exposureDatabaseSchema = "main", exposureTable = "cohort", outcomeDatabaseSchema = "main", outcomeTable = "cohort", outputFolder = file.path(folder, "crude"),
  cmAnalysesSpecifications = createCmAnalysesSpecifications(list(crude), list(createTargetComparatorOutcomes(101, 102, outcomes = list(createOutcome(201)))))), silent = TRUE)
say("a study without a propensity model", if (inherits(alone, "try-error")) "stops" else "runs")
write.csv(said, file.path(folder, "cohorts.csv"), row.names = FALSE)
