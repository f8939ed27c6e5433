//! The command line's end of the line door.

use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};

use home::{
    Home,
    tokens::{self, TokenText},
};
use terminal::{Exit, Trouble};

/// How long the gate may take to say hello; calls themselves have no deadline here.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Line {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    next: u64,
}

/// The parts of a message that tell whom it is for. What is in them stays text: a library's numbers are not those of the sender.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

fn not_json(error: &serde_json::Error) -> Trouble {
    Trouble::failed(format!("the gate's answer is not JSON: {error}"))
}

fn not_running(home: &Home) -> Trouble {
    Trouble::new(
        Exit::NotRunning,
        format!(
            "no gate is running in {}; start one with `portcullis up`",
            home.run.display()
        ),
    )
}

impl Line {
    /// Opens a line with the command line's own credential.
    pub fn as_operator(home: &Home) -> Result<Self, Trouble> {
        Self::open(home, tokens::read_clear(&home.operator_token_file()), None)
    }

    /// Opens a line with the first client's credential.
    pub fn as_client(home: &Home, mount: Option<&str>) -> Result<Self, Trouble> {
        Self::open(home, tokens::read_clear(&home.client_token_file()), mount)
    }

    /// Opens a line with this credential.
    pub fn with_token(
        home: &Home,
        token: Option<TokenText>,
        mount: Option<&str>,
    ) -> Result<Self, Trouble> {
        Self::open(home, token, mount)
    }

    fn open(home: &Home, token: Option<TokenText>, mount: Option<&str>) -> Result<Self, Trouble> {
        let writer = UnixStream::connect(home.socket()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => not_running(home),
            _ => Trouble::failed(format!(
                "cannot reach the gate at {}: {error}",
                home.socket().display()
            )),
        })?;
        let token = token.ok_or_else(|| {
            Trouble::failed(
                "this home has no credential for the command line; run `portcullis up` once",
            )
        })?;
        writer.set_read_timeout(Some(HELLO_PATIENCE))?;
        let mut line = Self {
            reader: BufReader::new(writer.try_clone()?),
            writer,
            next: 1,
        };
        let mut hello = json!({ "portcullis": "hello", "token": token.expose() });
        if let (Some(mount), Some(hello)) = (mount, hello.as_object_mut()) {
            hello.insert("mount".into(), mount.into());
        }
        line.send(&hello)?;
        let answer = line.receive()?;
        if let Some(error) = answer.get("error") {
            return Err(Trouble::failed(
                error
                    .as_str()
                    .map_or_else(|| error.to_string(), str::to_owned),
            ));
        }
        line.writer.set_read_timeout(None)?;
        Ok(line)
    }

    /// From now on the gate has this long for each answer.
    pub fn within(self, patience: Duration) -> Result<Self, Trouble> {
        self.writer.set_read_timeout(Some(patience))?;
        self.writer.set_write_timeout(Some(patience))?;
        Ok(self)
    }

    pub fn into_parts(self) -> (BufReader<UnixStream>, UnixStream) {
        (self.reader, self.writer)
    }

    pub fn send(&mut self, message: &Value) -> io::Result<()> {
        let mut text = message.to_string().into_bytes();
        text.push(b'\n');
        self.writer.write_all(&text)
    }

    fn receive(&mut self) -> Result<Value, Trouble> {
        serde_json::from_str(&self.receive_line()?).map_err(|error| not_json(&error))
    }

    fn receive_line(&mut self) -> Result<String, Trouble> {
        let mut text = String::new();
        match self.reader.read_line(&mut text) {
            Ok(0) => Err(Trouble::failed("the gate closed the connection")),
            Ok(_) => Ok(text),
            Err(error) => Err(Trouble::failed(format!(
                "the gate does not answer: {error}"
            ))),
        }
    }

    /// Sends a request and waits for its answer; whatever else comes in meanwhile is not for us.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value, Trouble> {
        self.request_raw(method, &params.to_string())
    }

    /// The same, with parameters whose text must stay as it is: something in them is signed.
    pub fn request_raw(&mut self, method: &str, params: &str) -> Result<Value, Trouble> {
        self.exchange(method, params)?
            .map_err(|error| refused(&error))
    }

    fn exchange(&mut self, method: &str, params: &str) -> Result<Result<Value, Value>, Trouble> {
        Ok(match self.exchange_text(method, params)? {
            Ok(result) => Ok(serde_json::from_str(&result).map_err(|error| not_json(&error))?),
            Err(error) => Err(error),
        })
    }

    /// The text of the result as the gate wrote it, or the JSON-RPC error.
    pub fn exchange_text(
        &mut self,
        method: &str,
        params: &str,
    ) -> Result<Result<String, Value>, Trouble> {
        let id = self.next;
        self.next += 1;
        let method = json!(method);
        let message = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method},\"params\":{params}}}\n"
        );
        self.writer.write_all(message.as_bytes())?;
        loop {
            let line = self.receive_line()?;
            let answer: Answer<'_> =
                serde_json::from_str(&line).map_err(|error| not_json(&error))?;
            if answer.method.is_some()
                || answer.id.is_none_or(|given| given.get() != id.to_string())
            {
                continue;
            }
            return Ok(match (answer.error, answer.result) {
                (Some(error), _) => {
                    Err(serde_json::from_str(error.get()).map_err(|error| not_json(&error))?)
                }
                (None, result) => Ok(result.map_or("null", RawValue::get).to_owned()),
            });
        }
    }

    /// Asks for an operation that takes nothing and names nothing.
    pub fn ask<A: api::Ask<Input: Default>>(&mut self, ask: A) -> Result<A::Output, Trouble> {
        self.ask_for(ask, "", &A::Input::default())
    }

    /// Asks for an operation. `name` is what its path names: a server, a caller, an approval or a call.
    pub fn ask_for<A: api::Ask>(
        &mut self,
        _: A,
        name: &str,
        input: &A::Input,
    ) -> Result<A::Output, Trouble> {
        let path = A::OPERATION.path_for(name);
        // A name that makes another path of it is the name of nothing.
        if api::find_unescaped(&path).is_none_or(|found| found.operation != A::OPERATION) {
            return Err(Trouble::failed(format!("there is nothing called `{name}`")));
        }
        let input = serde_json::to_value(input).map_err(Trouble::failed)?;
        let answer = self.request(&format!("portcullis/{path}"), &input)?;
        serde_json::from_value(answer).map_err(|error| {
            Trouble::failed(format!(
                "the gate's answer to {path} is unreadable: {error}"
            ))
        })
    }
}

/// Why, as the gate takes it.
pub fn reason(text: Option<&str>) -> Result<Option<api::Reason>, Trouble> {
    text.map(|text| api::Reason::try_from(text.to_owned()))
        .transpose()
        .map_err(Trouble::failed)
}

/// A JSON-RPC error, with the exit code that fits it.
pub fn refused(error: &Value) -> Trouble {
    let message = text(error, "/message").to_owned();
    let exit = match text(error, "/data/error_code") {
        "permission_denied" => Exit::Refused,
        "upstream_unavailable" | "timeout" => Exit::Upstream,
        _ => Exit::Failed,
    };
    Trouble::new(exit, message).about(error.clone())
}

/// Reads a text field.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
