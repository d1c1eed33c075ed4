/* pool.c: connections to a database, which threads take one after another. */
#include "internal.h"
#include <stdlib.h>

bool grapnel_pool_begin(struct grapnel_pool *pool, size_t max)
{
    *pool = (struct grapnel_pool){.max = max};
    pool->idle = calloc(max, sizeof *pool->idle);
    if (!pool->idle)
        return false;
    if (pthread_mutex_init(&pool->mutex, NULL) == 0) {
        if (pthread_cond_init(&pool->given, NULL) == 0)
            return true;
        pthread_mutex_destroy(&pool->mutex);
    }
    free(pool->idle);
    return false;
}

void grapnel_pool_end(struct grapnel_pool *pool, void (*close)(void *))
{
    while (pool->idle_count)
        close(pool->idle[--pool->idle_count]);
    free(pool->idle);
    pthread_cond_destroy(&pool->given);
    pthread_mutex_destroy(&pool->mutex);
}

void *grapnel_pool_take(struct grapnel_pool *pool)
{
    void *connection = NULL;

    pthread_mutex_lock(&pool->mutex);
    while (pool->used == pool->max)
        pthread_cond_wait(&pool->given, &pool->mutex);
    pool->used++;
    if (pool->idle_count)
        connection = pool->idle[--pool->idle_count];
    pthread_mutex_unlock(&pool->mutex);
    return connection;
}

void grapnel_pool_give(struct grapnel_pool *pool, void *connection)
{
    pthread_mutex_lock(&pool->mutex);
    pool->used--;
    if (connection)
        pool->idle[pool->idle_count++] = connection;
    pthread_cond_signal(&pool->given);
    pthread_mutex_unlock(&pool->mutex);
}
