# expect: job/invalid-value
job "x" {
  type = "system"
  reschedule {
    attempts = 1
    interval = "1h"
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
