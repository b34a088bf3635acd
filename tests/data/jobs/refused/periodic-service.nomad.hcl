# expect: job/invalid-value
job "x" {
  periodic {
    crons = ["@daily"]
  }
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
