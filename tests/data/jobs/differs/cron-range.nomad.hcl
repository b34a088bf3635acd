# expect: job/invalid-value
# Nomad accepts this.
# Reason: the range ends before it starts, so Nomad never launches the job.
job "x" {
  type = "batch"
  periodic {
    crons = ["0 22-2 * * *"]
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
