# Reference numbers of rms::orm (rms 6.5-0) for tests/cumulative/test_cumulative_references.py:
#   Rscript rms_orm.R > rms_orm.json
# orm models P(Y >= y) = F(alpha + x beta); its loglog and cloglog are the cloglog and loglog of
# P(Y <= y) = F(alpha(y) - x beta), with alpha = -alpha_orm.
suppressMessages({library(rms); library(jsonlite)})
set.seed(7)
n <- 60
x1 <- round(rnorm(n), 3); x2 <- rbinom(n, 1, 0.4)
y <- round(exp(0.8 * x1 - 0.6 * x2 + rlogis(n)), 1)
g <- rep(1:20, 3)
out <- list(x1 = x1, x2 = x2, y = y, cluster = g, fits = list())
for (f in c("logistic", "probit", "loglog", "cloglog", "cauchit")) {
  m <- orm(y ~ x1 + x2, family = f, x = TRUE, y = TRUE, eps = 1e-13, maxit = 100)
  V <- vcov(m, intercepts = "all")
  k <- length(unique(y)) - 1
  s <- c("x1", "x2")
  r <- if (f == "logistic") vcov(robcov(m), intercepts = "none") else NULL
  rc <- if (f == "logistic") vcov(robcov(m, g), intercepts = "none") else NULL
  out$fits[[f]] <- list(
    alpha = unname(coef(m)[1:k]), beta = unname(coef(m)[s]), loglik = unname(as.numeric(logLik(m))),
    var = unname(as.matrix(V[s, s])), alpha_var = unname(diag(as.matrix(V))[1:k]),
    robust = r, cluster = rc)
}
m <- orm(y ~ x1 + x2, x = TRUE, y = TRUE, eps = 1e-13, maxit = 100)
all <- function(fit) unname(diag(as.matrix(vcov(fit, intercepts = "all")))[1:k])
out$alpha_robust <- list(rows = all(robcov(m)), cluster = all(robcov(m, g)))
nd <- data.frame(x1 = c(-1, 0, 1), x2 = c(0, 1, 1))
out$mean <- unname(Mean(m)(predict(m, nd)))
write(toJSON(out, digits = 12, matrix = "rowmajor"), stdout())
