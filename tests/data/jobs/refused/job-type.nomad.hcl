# expect: job/unknown-word
job "typo" {
  type = "deamon"
  group "g" {
    task "t" {
      driver = "exec"
    }
  }
}
