# expect: job/expression
# Nomad accepts this.
# Reason: this program evaluates no expressions.
locals {
  name = "a"
}

job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      env {
        NAME = "db-${local.name}"
      }
    }
  }
}
