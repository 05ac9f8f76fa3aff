# Reference fits of survival::clogit; run `Rscript reference.R` in this folder (survival 3.x).
suppressMessages(library(survival))
write.csv(infert[, c("education", "age", "parity", "induced", "case", "spontaneous", "stratum")],
          "infert.csv", row.names = FALSE, quote = FALSE)
logan$professional <- as.integer(logan$occupation == "professional")
logan$father <- as.integer(logan$focc == "professional")
logan$black <- as.integer(logan$race == "black")
write.csv(logan[, c("education", "professional", "father", "black")], "logan.csv",
          row.names = FALSE, quote = FALSE)
show <- function(x) paste0("[", paste(formatC(x, digits = 17, format = "g"), collapse = ", "), "]")
control <- coxph.control(eps = 1e-14, iter.max = 100, toler.chol = 1e-14)
formulas <- list(
  infert = case ~ spontaneous + induced + strata(stratum),
  education = case ~ age + spontaneous + induced + strata(education),
  logan = professional ~ father + black + strata(education))
lines <- c()
for (name in names(formulas)) for (m in c("exact", "efron", "breslow")) {
  data <- if (name == "logan") logan else infert
  r <- clogit(formulas[[name]], data = data, method = m, control = control)
  lines <- c(lines, sprintf('  "%s-%s": {"coef": %s, "se": %s, "loglik": %s}', name, m,
    show(coef(r)), show(sqrt(diag(vcov(r)))), formatC(r$loglik[2], digits = 17, format = "g")))
}
w <- 1 + (seq_len(nrow(infert)) %% 3)
for (m in c("efron", "breslow")) {
  r <- clogit(formulas$education, data = infert, weights = w, method = m, control = control)
  V <- if (is.null(r$naive.var)) vcov(r) else r$naive.var
  lines <- c(lines, sprintf('  "weighted-%s": {"coef": %s, "se": %s, "loglik": %s}', m,
    show(coef(r)), show(sqrt(diag(V))), formatC(r$loglik[2], digits = 17, format = "g")))
}
writeLines(c("{", paste(lines, collapse = ",\n"), "}"), "clogit.json")
