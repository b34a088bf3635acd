# expect: job/invalid-value
# Nomad accepts this.
# Reason: there is no such date, so Nomad never launches the job.
job "x" {
  type = "batch"
  periodic {
    crons = ["0 0 30 2 *"]
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
