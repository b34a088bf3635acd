job "web" {
  meta {
    team = "storage"
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
      template {
        data        = <<EOF
      {{ env "NOMAD_PORT_http" }}
      EOF
        destination = "local/port"
      }

      logs {
        max_files = 2
      }
    }
  }
}
