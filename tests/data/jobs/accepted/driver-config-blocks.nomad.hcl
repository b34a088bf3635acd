job "blocks" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image = "busybox:1"

        mount {
          type   = "bind"
          source = "local"
          target = "/x"
        }

        auth = {
          server = "example.org"
        }
      }
    }
  }
}
