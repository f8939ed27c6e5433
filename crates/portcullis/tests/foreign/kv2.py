"""Uses the test kit's secret store as any program uses OpenBao or Vault."""

import sys

import hvac

url, role_id, secret_id = sys.argv[1:]
client = hvac.Client(url=url)
client.auth.approle.login(role_id=role_id, secret_id=secret_id)
assert client.token
kv = client.secrets.kv.v2
written = kv.create_or_update_secret(path="team/b", secret={"token": "one"}, mount_point="kv")
assert written["data"]["version"] == 1, written
kv.create_or_update_secret(path="team/b", secret={"token": "two"}, mount_point="kv")
read = kv.read_secret_version(path="team/b", mount_point="kv", raise_on_deleted_version=True)
assert read["data"]["data"] == {"token": "two"} and read["data"]["metadata"]["version"] == 2, read
client.auth.token.renew_self()
for wrong in ({"path": "team/none"},):
    try:
        kv.read_secret_version(mount_point="kv", raise_on_deleted_version=True, **wrong)
    except hvac.exceptions.InvalidPath:
        continue
    raise AssertionError(wrong)
try:
    hvac.Client(url=url, token="made-up").secrets.kv.v2.read_secret_version(
        path="team/b", mount_point="kv", raise_on_deleted_version=True
    )
except hvac.exceptions.Forbidden:
    pass
else:
    raise AssertionError("a token that nobody gave")
try:
    hvac.Client(url=url).auth.approle.login(role_id=role_id, secret_id="wrong")
except hvac.exceptions.InvalidRequest:
    pass
else:
    raise AssertionError("a wrong secret id")
