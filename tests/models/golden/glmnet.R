# Writes glmnet.json: coefficients by glmnet at lambda = sqrt(2 / variance) / n.
# Rscript glmnet.R > glmnet.json   (R 4.2.2, glmnet 4.1-6)
suppressMessages(library(glmnet))
set.seed(1)
n <- 60; p <- 6
X <- matrix(round(rnorm(n * p), 3), n)
X[, 2] <- as.numeric(X[, 2] > 0.5)
X[, 5] <- as.numeric(X[, 5] > 1)
eta <- X %*% c(0.8, -0.6, 0, 0.3, 0, -0.2)
w <- sample(c(0.5, 1, 2), n, TRUE)
y <- list(gaussian = round(as.numeric(eta + rnorm(n)), 3),
          binomial = as.numeric(runif(n) < plogis(eta)),
          poisson = rpois(n, exp(eta)))
time <- round(rexp(n, exp(eta)), 3) + 0.001 * seq_len(n)
event <- as.numeric(runif(n) < 0.7)
json <- function(x) paste0("[", paste(sprintf("%.15g", x), collapse = ","), "]")
variance <- 0.1
out <- c()
add <- function(name, fit) {
  b <- as.numeric(coef(fit))
  out <<- c(out, sprintf('  "%s": %s', name, json(b)))
}
# glmnet rescales the weights to sum to n, so lambda is over the sum of the weights.
fit <- function(family, y, weights = rep(1, n), alpha = 1, lambda = NULL) {
  if (is.null(lambda)) lambda <- sqrt(2 / variance) / sum(weights)
  # A short path down to the lambda wanted: glmnet is made for warm starts.
  glmnet(X, y, family = family, weights = weights, alpha = alpha,
         lambda = lambda * c(8, 4, 2, 1), standardize = FALSE, thresh = 1e-14, maxit = 1e7)
}
last <- function(f) { f$beta <- f$beta[, 4, drop = FALSE]; f$a0 <- f$a0[4]; f$lambda <- f$lambda[4]; f }
for (family in names(y)) {
  add(family, last(fit(family, y[[family]])))
  add(paste0(family, "_weighted"), last(fit(family, y[[family]], w)))
}
S <- cbind(time = time, status = event)
add("cox", last(fit("cox", S)))
# alpha = 1/2: half of lambda on |beta|, half on beta^2 / 2 (not for gaussian, whose y glmnet rescales).
for (family in c("binomial", "poisson")) add(paste0(family, "_elastic"), last(fit(family, y[[family]], alpha = 0.5)))
add("cox_elastic", last(fit("cox", S, alpha = 0.5)))
add("cox_weighted", last(fit("cox", S, w)))
cat("{\n")
cat(sprintf('  "variance": %.15g,\n', variance))
for (j in seq_len(p)) cat(sprintf('  "x%d": %s,\n', j - 1, json(X[, j])))
cat(sprintf('  "w": %s,\n  "time": %s,\n  "event": %s,\n', json(w), json(time), json(event)))
for (family in names(y)) cat(sprintf('  "y_%s": %s,\n', family, json(y[[family]])))
cat(paste(out, collapse = ",\n"))
cat("\n}\n")
