job "migration" {
  type = "batch"
  meta {
    team = "storage"
    set  = "job"
  }
  reschedule {
    attempts = 0
  }
  group "g" {
    meta {
      set  = "group"
      disk = "fast"
    }
    reschedule {
      attempts       = 3
      interval       = "1h"
      delay          = "10s"
      delay_function = "fibonacci"
      max_delay      = "1m"
      unlimited      = false
    }
    task "t" {
      driver = "exec"
      meta = {
        disk = "slow"
      }
    }
  }
}
