job "lonely" {
  task "t" {
    driver = "exec"
  }
}
