//! The CLIENT command: the identity of a connection.

use crate::Value;

use super::{Reply, repeated, unknown_part, wrong_count};

/// The maximum length of a name.
const NAME_BYTES_MAX: usize = 1024;

/// The identity of a client.
pub(super) struct Identity {
    /// The client's id, unique among all past and present connections of the server.
    pub(super) id: i64,
    name: Option<Value>,
}

impl Identity {
    pub(super) fn new(id: i64) -> Identity {
        Identity { id, name: None }
    }

    /// Executes CLIENT.
    ///
    /// # Errors
    /// Describes what is wrong with the command.
    pub(super) fn ask(&mut self, arguments: &[Vec<u8>]) -> Result<Reply, String> {
        let Some((part, rest)) = arguments.split_first() else { return Err(wrong_count("client")) };
        let part_name = part.to_ascii_lowercase();
        let expected = match &*part_name {
            b"id" | b"getname" => 0,
            b"setname" => 1,
            b"setinfo" => 2,
            _ => return Err(unknown_part("CLIENT", part, "GETNAME, ID, SETINFO and SETNAME")),
        };
        if rest.len() != expected {
            return Err(wrong_count(&format!("client|{}", String::from_utf8_lossy(&part_name))));
        }
        match &*part_name {
            b"id" => Ok(Reply::Integer(self.id)),
            b"getname" => Ok(self.name.clone().map_or(Reply::Null, Reply::Bulk)),
            b"setname" => self.call(&rest[0]).map(|()| Reply::Simple("OK")),
            _ => {
                // The client library's attributes are validated but not stored because no command
                // reports them.
                let attribute = String::from_utf8_lossy(&rest[0]).to_lowercase();
                match &*attribute {
                    "lib-name" | "lib-ver" => {
                        is_name(&attribute, &rest[1]).map(|()| Reply::Simple("OK"))
                    }
                    _ => Err(format!("ERR unrecognized option '{}'", repeated(&rest[0]))),
                }
            }
        }
    }

    /// Sets the name; an empty name removes it.
    ///
    /// # Errors
    /// Describes what is wrong with the name.
    pub(super) fn call(&mut self, name: &[u8]) -> Result<(), String> {
        is_name("Client names", name)?;
        self.name = (!name.is_empty()).then(|| Value::from(name));
        Ok(())
    }

    pub(super) fn forget_name(&mut self) {
        self.name = None;
    }
}

/// Checks that the bytes are a valid name. `what` names the attribute in error messages.
///
/// # Errors
/// Describes what is wrong with the name.
pub(super) fn is_name(what: &str, name: &[u8]) -> Result<(), String> {
    if name.len() > NAME_BYTES_MAX {
        let got = name.len();
        return Err(format!("ERR {what}: got {got} bytes, expected at most {NAME_BYTES_MAX}"));
    }
    match name.iter().all(u8::is_ascii_graphic) {
        true => Ok(()),
        false => Err(format!("ERR {what} cannot contain spaces, newlines or special characters.")),
    }
}
