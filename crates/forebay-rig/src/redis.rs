//! A client of the store's server that uses the protocol of Redis.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::PATIENCE;

/// A client's connection.
pub struct Client(BufReader<TcpStream>);

/// Encodes a command of these words.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

impl Client {
    /// Connects to a server.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream))
    }

    /// Sends bytes, which the server must accept.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    /// Sends a command of these words, without waiting for the reply.
    pub fn say(&mut self, words: &[&[u8]]) {
        self.send(&command(words));
    }

    /// Sends bytes to a server that may have been killed.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// Returns the next reply, in which an array's items are in brackets, or `None` if the server
    /// closed the connection. The server must not reset the connection.
    pub fn reply(&mut self) -> Option<Vec<u8>> {
        self.try_reply().unwrap()
    }

    /// Returns the next reply as text, or `None` if the connection has ended in any way.
    pub fn said(&mut self) -> Option<String> {
        let reply = self.try_reply().ok()??;
        Some(String::from_utf8_lossy(&reply).into_owned())
    }

    fn try_reply(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\r\n") else { return Ok(None) };
        let number = || str::from_utf8(&line[1..]).unwrap().parse::<i64>().unwrap();
        Ok(Some(match line[0] {
            b'$' if number() < 0 => b"nil".to_vec(),
            b'$' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                bytes
            }
            b'*' => {
                let mut items = Vec::new();
                for _ in 0..number() {
                    items.push(self.try_reply()?.ok_or(io::ErrorKind::UnexpectedEof)?);
                }
                [b"[", &items.join(&b' ')[..], b"]"].concat()
            }
            _ => line.to_vec(),
        }))
    }

    /// Sends a command of these words, and returns the reply.
    pub fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.say(words);
        self.reply().unwrap()
    }

    /// Sends a command whose words are separated by spaces, and returns the reply as text.
    pub fn text(&mut self, words: &str) -> String {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        String::from_utf8_lossy(&self.ask(&words)).into_owned()
    }

    /// Returns whether anything can be read without waiting.
    pub fn is_told(&self) -> bool {
        let stream = self.0.get_ref();
        stream.set_nonblocking(true).unwrap();
        let told = stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
        stream.set_nonblocking(false).unwrap();
        told
    }
}
