"""A client that was generated from the gate's own OpenAPI document: it lists calls, answers an approval and reads a report.

usage: operator_client.py DIRECTORY URL TOKEN

DIRECTORY holds the generated package. TOKEN is an approver's: what it may not do must come back as a problem.
"""

import json
import sys

directory, url, token = sys.argv[1:]
sys.path.insert(0, directory)

from portcullis_operator_interface_client import AuthenticatedClient
from portcullis_operator_interface_client.api.approvals import approvals_deny, approvals_list
from portcullis_operator_interface_client.api.audit import audit_query, audit_report
from portcullis_operator_interface_client.api.servers import servers_block
from portcullis_operator_interface_client.models import MustReason, Reasoned

client = AuthenticatedClient(base_url=url, token=token)
waiting = approvals_list.sync(client=client)
answered = approvals_deny.sync(waiting[0].id, client=client, body=Reasoned(reason="nobody asked for it"))
unknown = approvals_deny.sync("nothing", client=client, body=Reasoned())
forbidden = servers_block.sync("bank", client=client, body=MustReason(reason="it leaks"))
found = audit_query.sync(client=client, server="news", limit=5)
report = audit_report.sync(client=client)
print(
    json.dumps(
        {
            "waiting": [one.tool for one in waiting],
            "answered": answered.state,
            "unknown": [unknown.status, unknown.code],
            "forbidden": [forbidden.status, forbidden.code, forbidden.fix],
            "calls": [[call.server, call.tool, call.verdict] for call in found.records],
            "verifies": report.ledger.verifies,
            "counted": report.calls.total,
            "denied": report.approvals.denied,
        }
    )
)
