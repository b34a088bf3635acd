# expect: job/invalid-value
# Nomad accepts this.
# Reason: Nomad reads 30 nanoseconds.
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      kill_timeout = 30
    }
  }
}
