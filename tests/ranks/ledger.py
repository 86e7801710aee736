"""What the ledger of a run of several processes says."""


def unpredicted(sites):
    """The first site, of those behind the one of what no plan says, at which a process sent other bytes, or in other rounds, than were predicted; or None."""
    for s in sites[1:]:
        for r in s["by_rank"]:
            if (r["bytes_out"], r["rounds"]) != (r.get("predicted_bytes", 0), r.get("predicted_rounds", 0)):
                return "site %s: %s" % (s["name"], r)
    return None
