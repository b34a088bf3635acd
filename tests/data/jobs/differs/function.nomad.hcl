# expect: job/expression
# Nomad accepts this.
# Reason: this program evaluates no expressions.
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      user = lower("NOBODY")
    }
  }
}
