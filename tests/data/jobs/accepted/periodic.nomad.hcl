job "nightly" {
  type = "batch"

  periodic {
    crons            = ["0 3 * * *", "@monthly"]
    time_zone        = "Europe/Berlin"
    prohibit_overlap = true
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
