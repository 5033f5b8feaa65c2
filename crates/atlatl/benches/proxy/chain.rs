//! Chain: the first half of two `mcp-proxy`, which shows a server of standard streams over HTTP.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long it may take until it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Chain {
    child: Child,
    pub(crate) url: String,
}

impl Chain {
    /// Starts it and waits until it listens.
    pub(crate) fn start(program: &str, server: &[String]) -> Result<Self, String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| error.to_string())?;
        let child = Command::new(program)
            .args(["--log-level", "ERROR", "--port", &address.port().to_string(), "--"])
            .args(server)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let chain = Self { child, url: format!("http://{address}/mcp") };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if began.elapsed() > START_TIMEOUT {
                return Err("it does not listen".to_owned());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(chain)
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
