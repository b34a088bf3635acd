job "policies" {
  group "g" {
    restart {
      attempts = 3
      interval = "10m"
      delay    = "15s"
      mode     = "delay"
    }
    task "t" {
      driver = "exec"
      kill_timeout = "30s"
      kill_signal  = "SIGTERM"
      user         = "nobody"

      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
