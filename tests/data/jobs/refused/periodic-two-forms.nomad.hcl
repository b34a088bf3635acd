# expect: job/duplicate
job "x" {
  type = "batch"
  periodic {
    cron  = "@daily"
    crons = ["@weekly"]
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
