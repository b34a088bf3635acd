# expect: spec/wrong-type
job "x" {
  group "g" {
    restart = {
      attempts = 1
    }
    task "t" {
      driver = "exec"
    }
  }
}
