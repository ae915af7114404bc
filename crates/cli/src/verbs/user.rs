//! `althing user`: users, their passwords and their roles.

use super::{Error, Options, With, print};
use crate::client::{Format, prompt};
use crate::output::Printer;
use clap::{Args, Subcommand};
use proto::authpb::UserAddOptions;
use proto::etcdserverpb::{
    AuthRoleGetRequest, AuthUserAddRequest, AuthUserChangePasswordRequest, AuthUserDeleteRequest,
    AuthUserGetRequest, AuthUserGrantRoleRequest, AuthUserListRequest, AuthUserRevokeRoleRequest,
};
use std::io::BufRead;

const ADD_EXAMPLE: &str = "\
Example:
  althing user add ann:secret
  althing user add ann --new-user-password secret
  althing user add ann                 asks for the password, or reads it from standard input
  althing user add robot --no-password can only be told apart by other means";
const GET_EXAMPLE: &str = "\
Example:
  althing user get ann --detail        with what her roles may do";
const PASSWD_EXAMPLE: &str = "\
Example:
  echo secret | althing user passwd ann";

#[derive(Subcommand)]
pub enum User {
    /// Adds a user
    #[command(after_help = ADD_EXAMPLE)]
    Add(With<Add>),
    /// Deletes a user; its tokens end at once
    Delete(With<NameArg>),
    /// Prints the roles of a user
    #[command(after_help = GET_EXAMPLE)]
    Get(With<Get>),
    /// Lists all users
    List(Options),
    /// Sets the password of a user, typed or read from standard input; its tokens end at once
    #[command(after_help = PASSWD_EXAMPLE)]
    Passwd(With<NameArg>),
    /// Grants a role to a user
    GrantRole(With<Role>),
    /// Revokes a role from a user
    RevokeRole(With<Role>),
}

#[derive(Args)]
pub struct Add {
    /// The name, or the name and the password as NAME:PASSWORD
    #[arg(value_name = "USER")]
    name: String,
    /// The password
    #[arg(long, value_name = "PASSWORD")]
    new_user_password: Option<String>,
    /// A user that cannot log in with a password
    #[arg(long)]
    no_password: bool,
    /// With `false`, the password is read from standard input without a prompt
    #[arg(long, hide = true, default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    interactive: Option<bool>,
}

#[derive(Args)]
pub struct Get {
    #[arg(value_name = "USER")]
    name: String,
    /// Print the permissions of each role too, in the simple format
    #[arg(long)]
    detail: bool,
}

#[derive(Args)]
pub struct NameArg {
    #[arg(value_name = "USER")]
    name: String,
    /// With `false`, the password is read from standard input without a prompt
    #[arg(long, hide = true, default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    interactive: Option<bool>,
}

#[derive(Args)]
pub struct Role {
    #[arg(value_name = "USER")]
    name: String,
    role: String,
}

impl User {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            User::Add(add) => {
                let (name, password) = add.verb.credentials()?;
                let options = Some(UserAddOptions { no_password: add.verb.no_password });
                let request = AuthUserAddRequest { name: name.clone(), password, options };
                let done = add.options.client()?.user_add(request).await?;
                print(&Printer::new(&add.options).done(done.header, &format!("User {name} created")))
            }
            User::Delete(With { verb, options }) => {
                let done =
                    options.client()?.user_delete(AuthUserDeleteRequest { name: verb.name.clone() }).await?;
                print(&Printer::new(options).done(done.header, &format!("User {} deleted", verb.name)))
            }
            User::Get(With { verb, options }) => verb.run(options).await,
            User::List(options) => {
                let list = options.client()?.user_list(AuthUserListRequest {}).await?;
                print(&Printer::new(options).names(list.header, "users", &list.users))
            }
            User::Passwd(With { verb, options }) => {
                let (name, password) = (verb.name.clone(), new_password(&verb.name, verb.interactive)?);
                let request = AuthUserChangePasswordRequest { name, password };
                let done = options.client()?.user_change_password(request).await?;
                print(&Printer::new(options).done(done.header, "Password updated"))
            }
            User::GrantRole(With { verb: Role { name, role }, options }) => {
                let request = AuthUserGrantRoleRequest { user: name.clone(), role: role.clone() };
                let done = options.client()?.user_grant_role(request).await?;
                print(
                    &Printer::new(options)
                        .done(done.header, &format!("Role {role} is granted to user {name}")),
                )
            }
            User::RevokeRole(With { verb: Role { name, role }, options }) => {
                let request = AuthUserRevokeRoleRequest { name: name.clone(), role: role.clone() };
                let done = options.client()?.user_revoke_role(request).await?;
                let told = format!("Role {role} is revoked from user {name}");
                print(&Printer::new(options).done(done.header, &told))
            }
        }
    }
}

impl Get {
    /// With the permissions, as `etcdctl user get --detail` prints them.
    async fn run(&self, options: &Options) -> Result<(), Error> {
        let (client, printer) = (options.client()?, Printer::new(options));
        let user = client.user_get(AuthUserGetRequest { name: self.name.clone() }).await?;
        if !self.detail || printer.format() != Format::Simple {
            return print(&printer.user(&self.name, &user));
        }
        let mut text = format!("User: {}\n", self.name).into_bytes();
        for role in user.roles {
            let permissions = client.role_get(AuthRoleGetRequest { role: role.clone() }).await?;
            text.push(b'\n');
            text.extend(printer.role(&role, &permissions, &[]));
        }
        print(&text)
    }
}

impl Add {
    fn credentials(&self) -> Result<(String, String), Error> {
        if self.no_password {
            return Ok((self.name.clone(), String::new()));
        }
        let (name, password) = match (&self.new_user_password, self.name.split_once(':')) {
            (Some(password), _) => (self.name.clone(), password.clone()),
            (None, Some((name, password))) => (name.to_owned(), password.to_owned()),
            (None, None) => (self.name.clone(), new_password(&self.name, self.interactive)?),
        };
        if password.is_empty() {
            Err(Error::Usage("the password is empty: give one, or --no-password".to_owned()))
        } else {
            Ok((name, password))
        }
    }
}

/// Typed at the terminal, or a line of standard input, which must be there.
fn new_password(user: &str, interactive: Option<bool>) -> Result<String, Error> {
    if interactive != Some(false) && prompt::is_possible() {
        return prompt::ask_twice(user);
    }
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line).map_err(Error::Input)? {
        0 => Err(prompt::end_of_input()),
        _ => Ok(line.trim_end_matches(['\r', '\n']).to_owned()),
    }
}
