"""A PostgreSQL set up by deploy/owner.sql and deploy/login.sql: the owner migrates and the service sells there, and the
owner, with whose rights all functions run, cannot gain more. The control: an owner that may create roles can. Nor can the
service's login fill the disk with other things than orders, or a stranger look in."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from stack import ROOT, Broken, PostgresServer, migrate

ENV = {"SECKILL_OWNER_PASSWORD": "o", "SECKILL_DB_PASSWORD": "s"}
DATABASE = "made_by_files"
PROGRAM = "copy (select 1) to program 'cat >/dev/null'"

# Ways to the server's account, or to other roles; each in its own session.
WAYS = (
    PROGRAM,
    "grant pg_execute_server_program to seckill_owner; " + PROGRAM,
    "grant pg_write_server_files to seckill_owner; copy (select 1) to '/dev/null'",
    "grant pg_read_server_files to seckill_owner; select pg_read_file('postgresql.conf')",
    "grant postgres to seckill_owner; set role postgres",
    "grant pg_monitor to seckill",
    "grant seckill_keeper to seckill",
    "grant seckill_keeper to seckill_owner",
    "create role strange superuser",
    "create role strange in role pg_execute_server_program",
    "alter role seckill_owner createrole",
    "alter role seckill_owner superuser",
    "alter role seckill password 'x'",
    "set role postgres",
    "set session authorization postgres",
    "create function f() returns int language c as 'libc', 'getpid'",
    "create extension file_fdw",
    "alter system set archive_command = 'true'",
    "alter database " + DATABASE + " set session_preload_libraries = 'auto_explain'",
    "select lo_import('/etc/passwd')",
)
# What a stolen login of the service must not make, each with what would permit it.
THINGS = {
    "create temporary table t (x integer)": f"grant temporary on database {DATABASE} to public",
    "select lo_create(0)": "grant execute on function lo_create(oid) to public",
    "select lo_creat(-1)": "grant execute on function lo_creat(integer) to public",
    "select lo_from_bytea(0, 'x')": "grant execute on function lo_from_bytea(oid, bytea) to public",
}
ATTRIBUTES = "superuser createdb createrole replication bypassrls"
HAVE_MORE = (
    "select rolname from pg_roles where rolname ~ '^seckill'"
    " and (rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls)"
)
REFUSED = ("permission denied", "must be superuser", "must have admin option", "no privilege", "is not supported")


def attempt(postgres: PostgresServer, login: str, script: str) -> str:
    """PostgreSQL's error for that login; '' if it executed everything."""
    command = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(postgres.port)]
    done = subprocess.run([*command, "-U", login, DATABASE], input=script, text=True, capture_output=True)
    return done.stderr.strip()


def set_up(postgres: PostgresServer, binary) -> None:
    postgres.sql(f"drop role seckill_service, seckill_keeper; create database {DATABASE}", "postgres")
    for number, name in enumerate(("owner.sql", "login.sql", "owner.sql", "login.sql")):  # they may be run repeatedly
        if number == 2:  # by then the roles have been given more
            for role in ("seckill_owner", "seckill_service", "seckill_keeper", "seckill"):
                postgres.sql(f"alter role {role} {ATTRIBUTES}", DATABASE)
        command = postgres.psql("-f", str(ROOT / "deploy" / name), DATABASE)
        done = subprocess.run(command, env=os.environ | ENV, text=True, capture_output=True)
        if done.returncode != 0:
            raise Broken(f"{name}: {done.stderr}")
    migrate(binary, {"SECKILL_DATABASE_URL": f"postgresql://seckill_owner@127.0.0.1:{postgres.port}/{DATABASE}"})


def gained(postgres: PostgresServer) -> list[str]:
    """The ways that were not denied for lack of rights."""
    wrong = []
    for way in WAYS:
        reply = attempt(postgres, "seckill_owner", way)
        if not any(text in reply for text in REFUSED):
            wrong.append(f"the owner: {way}: {reply or 'carried out'}")
    return wrong


def filled(postgres: PostgresServer) -> list[str]:
    """The things that the service's login could make."""
    return [thing for thing in THINGS if not any(text in attempt(postgres, "seckill", thing) for text in REFUSED)]


def things(postgres: PostgresServer) -> list[str]:
    wrong = [f"the service's login: {thing}" for thing in filled(postgres)]
    postgres.sql("create role stranger login", DATABASE)
    if "permission denied" not in attempt(postgres, "stranger", "select 1"):
        wrong.append("a stranger connects")
    for permission in (*THINGS.values(), f"grant connect on database {DATABASE} to public"):
        postgres.sql(permission, DATABASE)
    if filled(postgres) != list(THINGS) or attempt(postgres, "stranger", "select 1"):
        wrong.append("the control: what is permitted is refused")
    return wrong


def run(binary) -> list[str]:
    folder = Path(tempfile.mkdtemp(prefix="seckill-owner.", dir="/var/tmp"))
    folder.chmod(0o755)
    postgres = PostgresServer(folder)
    try:
        set_up(postgres, binary)
        if reply := attempt(postgres, "seckill", "select * from list_vouchers('open', 0, 10)"):
            return [f"the service's login may not do its work: {reply}"]
        wrong = [f"{role} has kept an attribute" for role, in postgres.sql(HAVE_MORE, DATABASE)]
        wrong += things(postgres)
        wrong += gained(postgres)
        print(f"{len(WAYS) + len(THINGS)} ways to more rights tried, {len(wrong)} open", flush=True)
        postgres.sql("alter role seckill_owner createrole", DATABASE)
        if not any(PROGRAM in line for line in gained(postgres)):
            wrong.append("the control: an owner that may create roles gained nothing")
        return wrong
    finally:
        postgres.end(signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)
