# Numbers of R's survival package (3.5-3, R 4.2.2) with everything at once: tied times, late entry,
# strata (one of a single row), weights (some of zero, which R takes as rows left out), an offset
# and clusters that cut strata. Run in this folder: Rscript crossed.R
# Writes crossed.json: the data, and the numbers by ties.
suppressMessages({library(survival); library(jsonlite)})
set.seed(13)
n <- 40
d <- data.frame(x1 = round(rnorm(n), 1), x2 = rbinom(n, 1, 0.4), offset = round(rnorm(n) / 2, 1))
d$time <- ceiling(rexp(n, exp(0.4 * d$x1)) * 12)
d$event <- rbinom(n, 1, 0.75)
d$entry <- floor(d$time * runif(n) * rbinom(n, 1, 0.7))
d$weight <- sample(c(0, 0.3, 1, 2.5, 7), n, TRUE)
d$stratum <- c(9, sample(1:3, n - 1, TRUE))
d$cluster <- sample(1:12, n, TRUE)
d$weight[1] <- 1
some <- d[d$weight > 0, ]
rows <- which(d$weight > 0)
out <- list(data = d, rows = rows - 1)
new <- rows[c(3, 10, 20)]
out$new <- new - 1
tight <- coxph.control(eps = 1e-12, toler.chol = 1e-14, iter.max = 60)
for (ties in c("efron", "breslow")) {
  f <- Surv(entry, time, event) ~ x1 + x2 + offset(offset) + strata(stratum)
  fit <- coxph(f, some, weights = weight, ties = ties, control = tight, robust = FALSE,
    nocenter = NULL, x = TRUE, y = TRUE)
  robust <- coxph(f, some, weights = weight, ties = ties, control = tight, cluster = cluster,
    nocenter = NULL)
  pairs <- concordance(fit, cluster = some$cluster)
  kinds <- c("martingale", "deviance", "score", "dfbeta", "schoenfeld", "scaledsch")
  residual <- lapply(kinds, function(k)
    signif(as.matrix(residuals(fit, type = k, weighted = k == "dfbeta")), 10))
  names(residual) <- kinds
  curves <- lapply(new, function(i) {
    s <- survfit(fit, newdata = d[i, ], conf.type = "log-log", censor = FALSE)
    signif(cbind(s$time, s$surv, s$std.err * s$surv, s$lower, s$upper), 10)
  })
  zph <- lapply(c("km", "identity", "rank"), function(k)
    cox.zph(fit, transform = k, terms = FALSE)$table)
  out[[ties]] <- c(list(coef = unname(coef(fit)), vcov = fit$var, robust = robust$var,
    log_likelihood = fit$loglik[2:1], tests = c(fit$score, fit$wald.test),
    concordance = c(pairs$concordance, sqrt(pairs$var)), curves = curves, zph = zph), residual)
}
writeLines(toJSON(out, digits = NA, dataframe = "columns"), "crossed.json")
