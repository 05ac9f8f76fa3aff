# How far weights for event-dependent observation move estimates where no end depends on an event:
# Rscript event_dependence.R SIMULATIONS CASES SEED FILE
# Simulates case series with a rate ratio of 1.2 during eras and constant rates otherwise, fits each with and without the weights, and
# writes both log ratios; eras that last on average three years and so often until the end ("long"), and eras of 14 days anywhere ("short").
suppressMessages({library(SelfControlledCaseSeries)})
invisible(ParallelLogger::clearLoggers())
# Clusters of R processes, each of which loads its packages, take longer than small studies themselves.
cluster_of <- ParallelLogger::makeCluster
assignInNamespace("makeCluster", function(numberOfThreads, ...) cluster_of(1, ...), "ParallelLogger")
arguments <- as.integer(commandArgs(TRUE)[1:3])
out <- file(commandArgs(TRUE)[4], "w") # the packages print their progress
control <- Cyclops::createControl(noiseLevel = "silent", tolerance = 1e-9, maxIterations = 5000, resetCoefficients = TRUE, seed = 1)
window <- createEraCovariateSettings(label = "Main", includeEraIds = 1, start = 0, end = 0, endAnchor = "era end")
quietly <- function(x) suppressMessages(suppressWarnings(x))
estimate <- function(people, data, weights) {
  given <- createCreateSccsIntervalDataArgs(eraCovariateSettings = list(window), endOfObservationEraLength = 0, eventDependentObservation = weights)
  intervals <- quietly(createSccsIntervalData(people, data, given))
  fit <- quietly(fitSccsModel(intervals, createFitSccsModelArgs(prior = Cyclops::createPrior("none"), control = control)))
  c(fit$estimates$logRr[1], if (weights) attr(intervals, "metaData")$censorModel$model else NA)
}
cat("eras,simulation,without,with,model\n", file = out)
for (kind in c("long", "short")) {
  settings <- createSccsSimulationSettings(eraIds = 1, patientUsages = 0.8, usageRate = if (kind == "short") 0.005 else 0.001, usageRateSlope = 0,
    meanPrescriptionDurations = if (kind == "short") 14 else 1095, sdPrescriptionDurations = if (kind == "short") 7 else 365,
    simulationRiskWindows = list(createSimulationRiskWindow(relativeRisks = 1.2)), includeAgeEffect = FALSE, includeSeasonality = FALSE,
    includeCalendarTimeEffect = FALSE)
  for (k in seq_len(arguments[1])) {
    set.seed(arguments[3] + k)
    data <- quietly(simulateSccsData(arguments[2], settings))
    people <- quietly(createStudyPopulation(data, 10, createStudyPopulationArgs = createCreateStudyPopulationArgs()))
    with <- estimate(people, data, TRUE)
    cat(kind, k, estimate(people, data, FALSE)[1], with[1], with[2], sep = ",", file = out)
    cat("\n", file = out)
    flush(out)
    Andromeda::close(data)
  }
}
