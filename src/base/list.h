// An intrusive list: each member contains its own link, so adding and removing never fail. The list is a ring through
// its head. The link comes first in its member, so a pointer to one is cast to the other.
//
// The owner's thread, as all functions. The list owns nothing.
#ifndef SK_BASE_LIST_H
#define SK_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

// A head, or the link of a member. A zeroed link is in no list.
struct sk_list {
    struct sk_list *previous, *next;
};

// Makes it the head of an empty list.
static inline void sk_list_begin(struct sk_list *head)
{
    head->previous = head->next = head;
}

static inline bool sk_list_is_empty(const struct sk_list *head)
{
    return head->next == head;
}

// The member behind another; behind the head, the first. NULL: there is none.
static inline void *sk_list_next(const struct sk_list *head, const struct sk_list *other)
{
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a member that was freed has left the list
    return other->next == head ? NULL : other->next;
}

// The first member: the oldest, if members are only added last. NULL: the list is empty.
static inline void *sk_list_first(const struct sk_list *head)
{
    return sk_list_next(head, head);
}

// Inserts a member behind another. Behind the head means first.
static inline void sk_list_add_behind(struct sk_list *member, struct sk_list *other)
{
    member->previous = other;
    member->next = other->next;
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): as above
    other->next->previous = member;
    other->next = member;
}

static inline void sk_list_add_last(struct sk_list *member, struct sk_list *head)
{
    sk_list_add_behind(member, head->previous);
}

// The member must be in a list, and is in none afterwards.
static inline void sk_list_remove(struct sk_list *member)
{
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): one that has left the list is not found there again
    member->previous->next = member->next;
    member->next->previous = member->previous;
    member->previous = member->next = NULL;
}

#endif
