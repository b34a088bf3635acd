# expect: job/not-supported
# Nomad accepts this.
# Reason: this program does not carry it out, and without it the job could do something else to its volumes.
job "x" {
  type = "batch"
  periodic {
    crons            = ["0 3 * * *"]
    prohibit_overlap = true
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
