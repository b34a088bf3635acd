# expect: job/unknown-word
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      lifecycle {
        hook = "before"
      }
    }
  }
}
