job "web" {
  ui {
    description = "ignored"
  }
  group "g" {
    network {
      port "http" {
        to = 8080
      }
    }

    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
    }
    task "t" {
      driver = "exec"
      logs {
        max_files = 2
      }
    }
  }
}
