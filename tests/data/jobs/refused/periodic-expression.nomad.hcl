# expect: job/invalid-value job/invalid-value
job "x" {
  type = "batch"
  periodic {
    crons     = ["0 25 * * *"]
    time_zone = "Europe/Atlantis"
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
