# expect: job/not-supported
# Nomad accepts this.
# Reason: this program does not carry it out, and without it the job could do something else to its volumes.
job "x" {
  type = "batch"
  group "g" {
    max_run_duration = "1h"
    task "t" {
      driver = "exec"
    }
  }
}
