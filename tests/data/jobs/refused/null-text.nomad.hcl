# expect: spec/wrong-type
job "x" {
  group "g" {
    task "t" {
      driver = "exec"
      user = null
    }
  }
}
