# R's MatchIt: Rscript comparison_peers.R DATA.csv FIRST.csv; the last line printed is JSON.
# Nearest pairs on the logit of a logistic score, their balance, and the difference in matched sets.
if (!suppressPackageStartupMessages(requireNamespace("MatchIt", quietly = TRUE))) quit(status = 3)
files <- commandArgs(TRUE)
compare <- function(data) {
  covariates <- reformulate(setdiff(names(data), c("drug", "y")), "drug")
  found <- MatchIt::matchit(covariates, data, method = "nearest", distance = "glm",
                            link = "linear.logit")
  invisible(summary(found))
  pairs <- MatchIt::match.data(found)
  fit <- lm(y ~ drug, pairs, weights = weights)
  coef(fit)[["drug"]]
}
compare(read.csv(files[2]))
data <- read.csv(files[1])
invisible(gc(reset = TRUE))
started <- proc.time()
estimate <- compare(data)
spent <- proc.time() - started
cat(sprintf('{"estimate": %.10g, "seconds": %.4f, "processor": %.4f, "version": "%s"}\n', estimate,
            spent[["elapsed"]], spent[["user.self"]] + spent[["sys.self"]],
            packageVersion("MatchIt")))
