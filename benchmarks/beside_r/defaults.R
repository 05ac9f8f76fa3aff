# Write the defaults of the functions whose arguments the pages list: Rscript defaults.R OUTPUT
suppressMessages({library(jsonlite); library(CohortMethod); library(SelfControlledCaseSeries)})
of <- list(
  CohortMethod = c("createGetDbCohortMethodDataArgs", "createCreateStudyPopulationArgs", "createCreatePsArgs", "createTrimByPsArgs",
    "createTruncateIptwArgs", "createMatchOnPsArgs", "createStratifyByPsArgs", "createComputeCovariateBalanceArgs",
    "createFitOutcomeModelArgs", "createCmDiagnosticThresholds", "createTargetComparatorOutcomes", "createOutcome",
    "createCmAnalysis", "createCmAnalysesSpecifications", "getDbCohortMethodData", "createStudyPopulation", "createPs", "trimByPs",
    "truncateIptw", "matchOnPs", "stratifyByPs", "fitOutcomeModel", "computeCovariateBalance", "computeMdrr", "computeEquipoise",
    "runCmAnalyses", "createMultiThreadingSettings", "createDefaultMultiThreadingSettings", "exportToCsv"),
  SelfControlledCaseSeries = c("createEraCovariateSettings", "createAgeCovariateSettings", "createSeasonalityCovariateSettings",
    "createCalendarTimeCovariateSettings", "createControlIntervalSettings", "createGetDbSccsDataArgs",
    "createCreateStudyPopulationArgs", "createCreateSccsIntervalDataArgs", "createFitSccsModelArgs", "createSccsDiagnosticThresholds",
    "createCreateScriIntervalDataArgs", "createExposuresOutcome", "createExposure", "createSccsAnalysis",
    "createSccsAnalysesSpecifications", "getDbSccsData", "createStudyPopulation", "createSccsIntervalData", "createScriIntervalData",
    "fitSccsModel", "computeMdrr", "checkTimeStabilityAssumption", "computeTimeStability", "checkEventExposureIndependenceAssumption",
    "checkEventObservationIndependenceAssumption", "checkRareOutcomeAssumption", "computePreExposureGainP", "runSccsAnalyses",
    "createSccsMultiThreadingSettings", "createDefaultSccsMultiThreadingSettings", "exportToCsv"),
  Cyclops = c("createPrior", "createControl"))
text <- function(value) if (is.symbol(value) && nchar(as.character(value)) == 0) "" else paste(deparse(value), collapse = " ")
found <- lapply(names(of), function(package) {
  functions <- setNames(of[[package]], of[[package]])
  c(list(version = as.character(packageVersion(package))),
    lapply(functions, function(name) lapply(formals(getExportedValue(package, name)), text)))
})
write_json(setNames(found, names(of)), commandArgs(TRUE)[1], auto_unbox = TRUE, pretty = 1)
