job "weekly" {
  type = "sysbatch"

  periodic {
    cron    = "15 4 * * SUN"
    enabled = false
  }

  group "g" {
    task "t" {
      driver = "exec"

      config {
        command = "/bin/date"
      }
    }
  }
}
